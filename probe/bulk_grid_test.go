package probe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A bulkWorld is two hosts, a0 and b0, whose lanes have sockets of their own.
type bulkWorld struct {
	*world
	n        *gridnet.Network
	from, to *member
	arrived  chan int64 // bytes of lanes that run for truth
}

// inBulkWorld runs f over cfg with both hosts serving.
func inBulkWorld(t *testing.T, cfg gridnet.Config, change func(*Config), f func(context.Context, *testing.T, *bulkWorld)) {
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := &bulkWorld{world: newWorld(t), n: n, arrived: make(chan int64, 64)}
		w.from, w.to = w.joinLanes("a0", "a", change), w.joinLanes("b0", "b", change)
		w.to.endpoint.HandleStreams(lane.StreamData, w.swallow)
		w.run([]*member{w.from, w.to}, false, func(ctx context.Context) { f(ctx, t, w) })
	})
}

func (w *bulkWorld) joinLanes(name, site string, change func(*Config)) *member {
	w.t.Helper()
	more := func() (net.PacketConn, error) { return w.n.Listen(name) }
	return w.joinOver(gridtest.Listen(w.t, w.n, name), more, Peer{Name: name, Site: site}, change)
}

// joinSites is joinLanes for all hosts of cfg.
func (w *bulkWorld) joinSites(cfg gridnet.Config) (members []*member) {
	for _, s := range cfg.Sites {
		for _, h := range s.Hosts {
			members = append(members, w.joinLanes(h, s.Name, nil))
		}
	}
	return members
}

// joinOver is [world.join] with lanes on sockets of their own.
func (w *world) joinOver(conn net.PacketConn, more func() (net.PacketConn, error), peer Peer, change func(*Config)) *member {
	w.t.Helper()
	e, err := lane.New(lane.Config{
		Conn: conn, OpenSocket: more, Credentials: w.ca.credentials(w.t, peer.Name),
		Resolve: func(name string) (net.Addr, bool) { a, ok := w.addrs[name]; return a, ok },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.addrs[peer.Name] = conn.LocalAddr()
	w.peers = append(w.peers, peer)
	cfg := Config{
		Self: peer, Endpoint: e, Record: w.record, Known: w.known, Peers: func() []Peer { return w.peers },
		Rand: rand.New(rand.NewPCG(uint64(len(w.peers)), 9)),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return &member{peer, e, p}
}

// swallow reads a lane of [bulkWorld.truth].
func (w *bulkWorld) swallow(_ context.Context, s *lane.Stream) {
	defer s.Abort()
	b := make([]byte, 1<<16)
	for {
		n, err := s.Read(b)
		if n > 0 {
			w.arrived <- int64(n)
		}
		if err != nil {
			return
		}
	}
}

// truth returns what k lanes get together, user bytes a second, from skip after their start on for d.
func (w *bulkWorld) truth(ctx context.Context, k int, skip, d time.Duration) float64 {
	ctx, cancel := context.WithCancel(ctx)
	for i := range k {
		s, err := w.from.endpoint.Open(ctx, "b0", 1+i, lane.StreamData)
		if err != nil {
			w.t.Fatal(err)
		}
		context.AfterFunc(ctx, s.Abort)
		go io.Copy(s, zeros{})
	}
	var sum int64
	count := func(d time.Duration) (n int64) {
		for end := time.After(d); ; {
			select {
			case b := <-w.arrived:
				n += b
			case <-end:
				return n
			}
		}
	}
	count(skip)
	sum = count(d)
	cancel()
	count(time.Second)
	w.from.endpoint.CloseLanes("b0", 1)
	count(time.Second)
	return float64(sum) / d.Seconds()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A bulk probe reads what a real lane gets when it runs for long.
func TestBulkReadsTheSteadyState(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name string
		link gridnet.Link
		d    time.Duration // of the truth, from 3 s on
		runs int
		off  float64 // tolerated; 0: three times what the result itself states
	}{
		{"1.16 Mbit/s", gridnet.Link{Rate: 1.16 * gridnet.Mbps, Latency: 50 * ms}, 60 * time.Second, 3, 0.03},
		{"20 Mbit/s", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 10 * ms}, 10 * time.Second, 2, 0.03},
		{"20 Mbit/s, 0.1 % loss", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 10 * ms, Loss: 0.001}, 20 * time.Second, 2, 0.05},
		{"85 Mbit/s, 0.1 % loss", gridnet.Link{Rate: 85 * gridnet.Mbps, Latency: 10 * ms, Loss: 0.001}, 15 * time.Second, 1, 0},
		{"289 Mbit/s", gridnet.Link{Rate: 289 * gridnet.Mbps, Latency: 10 * ms}, time.Second / 2, 1, 0.03},
		{"20 Mbit/s, a flow 2.5", gridnet.Link{Rate: 20 * gridnet.Mbps, FlowRate: 2.5 * gridnet.Mbps, Latency: 10 * ms}, 20 * time.Second, 2, 0.03},
		{"2 Mbit/s after 500 kB at 20", gridnet.Link{Rate: 20 * gridnet.Mbps, ShapeRate: 2 * gridnet.Mbps, ShapeBurst: 500e3, Latency: 10 * ms}, 30 * time.Second, 3, 0.05},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if (testing.Short() || gridtest.Race) && tt.runs < 3 {
				t.Skip("moves 60 MB or more")
			}
			inBulkWorld(t, gridtest.Pair(tt.link), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
				truth := w.truth(ctx, 1, 3*time.Second, tt.d)
				bdp := truth * 2 * tt.link.Latency.Seconds()
				for range tt.runs {
					time.Sleep(30 * time.Second) // buckets are full again
					r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					off := float64(r.Rate)/truth - 1
					t.Logf("%.3f of %.3f Mbit/s: %+.1f %%, spread %.3f, enough %v, shaped %v, limited %v, loss %.4f, %v of %v, %d kB = %.1f BDP in %v",
						r.Rate.Mbps(), netmap.BytesPerSec(truth).Mbps(), 100*off, r.Spread, r.Enough, r.Shaped, r.Limited, r.Loss, r.Loaded, r.RTT, r.Bytes/1000, float64(r.Bytes)/bdp, r.Took)
					if tol := cmp.Or(tt.off, 3*r.Spread); math.Abs(off) > tol {
						t.Errorf("off by %+.1f %%, want at most %.1f", 100*off, 100*tol)
					}
					most := 1.4
					if tt.link.Loss > 0 {
						most = 3 // it goes on for as long as it is not sure that the link is full
					}
					full := off > -0.1 && truth > 0.9*linkTruth(tt.link.Rate) // and no bucket, no ceiling of a flow
					if cost := float64(bulkCost(r.Rate, r.RTT)); full && (float64(r.Bytes) > most*cost || float64(r.Bytes) < cost/2) {
						t.Errorf("%d bytes, %.0f were foreseen", r.Bytes, cost)
					}
					if r.Limited || r.Lanes != 0 || r.Curve != nil {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}

// Where each flow is held to a share of the link, the search finds all of it and how many it takes.
func TestBulkFindsTheKnee(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		link gridnet.Link
		want int // lanes
	}{
		{gridnet.Link{Rate: 20 * gridnet.Mbps, FlowRate: 2.5 * gridnet.Mbps, Latency: 10 * ms}, 8},
		{gridnet.Link{Rate: 20 * gridnet.Mbps, FlowRate: 4 * gridnet.Mbps, Latency: 10 * ms}, 5},
		{gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 10 * ms}, 1},
		{gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 10 * ms, Loss: 0.015}, 4}, // one gets about 7
	} {
		t.Run(fmt.Sprint(tt.want), func(t *testing.T) {
			inBulkWorld(t, gridtest.Pair(tt.link), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
				r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{lanes: maxLanes, time: maxBulkTime, bytes: 256 << 20})
				if err != nil {
					t.Error(err)
					return
				}
				want := linkTruth(tt.link.Rate)
				t.Logf("%.2f Mbit/s, want %.2f, with %d lanes, want %d; knee %v; one %.2f; loss %.4f; %d kB in %v\n%+v", r.Capacity.Mbps(),
					want*8/1e6, r.Lanes, tt.want, r.Knee, r.Rate.Mbps(), r.Loss, r.Bytes/1000, r.Took, r.Curve)
				if off := float64(r.Capacity)/want - 1; math.Abs(off) > 0.1 {
					t.Errorf("off by %+.1f %%", 100*off)
				}
				if r.Lanes > 2*tt.want || 2*r.Lanes < tt.want || !r.Knee {
					t.Errorf("%d lanes, want %d", r.Lanes, tt.want)
				}
			})
		})
	}
}

// A search that has used up its bytes says what it has found until then: that several lanes get more than one, whatever more would. Of one that
// has read no more than one lane nothing is said.
func TestCutShortSaysWhatIsSure(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	const flow, all = 2.5 * gridnet.Mbps, 20 * gridnet.Mbps
	knew := 0
	for _, bytes := range []int64{400_000, 1_500_000, 2_500_000, 4_000_000, 6_000_000} {
		inBulkWorld(t, gridtest.Pair(gridnet.Link{Rate: all, FlowRate: flow, Latency: 50 * time.Millisecond}), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
			r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{lanes: maxLanes, time: maxBulkTime, bytes: bytes})
			t.Logf("%d bytes: %.2f Mbit/s with %d lanes, knee %v, %v; %+v", bytes, r.Capacity.Mbps(), r.Lanes, r.Knee, err, r.Curve)
			if err != nil || r.Knee {
				t.Errorf("%d bytes: %v, knee %v", bytes, err, r.Knee)
			}
			if r.Lanes == 0 {
				return
			}
			knew++
			// The knee lies below the last point, where 95 % of what that got would do.
			if want := min(float64(r.Lanes)*linkTruth(flow)/kneeShare, linkTruth(all)); float64(r.Capacity) < 0.9*want || float64(r.Capacity) > 1.15*want {
				t.Errorf("%d bytes: %d lanes get %.2f Mbit/s, want about %.2f", bytes, r.Lanes, r.Capacity.Mbps(), want*8/1e6)
			}
		})
	}
	if knew < 2 {
		t.Errorf("%d searches of 5 told anything", knew)
	}
}

// TestSearchWithoutFurtherLanes: a search whose next lanes do not connect, as on a link that those before have filled, keeps what these got. A glance does as well.
func TestSearchWithoutFurtherLanes(t *testing.T) {
	const flow = 2.5 * gridnet.Mbps
	for _, glance := range []bool{false, true} {
		inBulkWorld(t, gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, FlowRate: flow, Latency: 20 * time.Millisecond}), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
			p := w.from.prober
			p.cfg.Endpoint = fewLanes{p.cfg.Endpoint, 2}
			r, err := p.bulk(ctx, w.to.peer, bulkOptions{glance: glance, lanes: maxLanes, link: linkTruth(flow), rtt: 40 * time.Millisecond, time: maxBulkTime})
			if off := float64(r.Capacity)/(2*linkTruth(flow)) - 1; err != nil || r.Knee || math.Abs(off) > 0.1 || !glance && r.Lanes != 2 {
				t.Errorf("glance %v: %v, %d lanes, knee %v, %.2f Mbit/s", glance, err, r.Lanes, r.Knee, r.Capacity.Mbps())
			}
		})
	}
}

// fewLanes is an endpoint of which a bulk probe gets so many lanes.
type fewLanes struct {
	Endpoint
	n int
}

func (f fewLanes) Open(ctx context.Context, name string, n int, k lane.StreamKind) (*lane.Stream, error) {
	if n >= bulkLane+f.n {
		return nil, context.DeadlineExceeded
	}
	return f.Endpoint.Open(ctx, name, n, k)
}

// linkTruth is what lanes get of a link of a rate, user bytes a second.
func linkTruth(r gridnet.Rate) float64 { return float64(truth(r)) }
