package gridnet_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// ends are the hosts a0 and b0 of a pair, emulated or behind wires: send hands packet id of
// size IP bytes of a flow to a0, for b0, and arrived lists what came out and when.
type ends struct {
	send    func(flow, id, size int)
	arrived func() []arrival
}

type arrival struct {
	id int
	at time.Duration
}

// collect reads until an error, and returns a function that lists what has been read.
func collect(read func([]byte) (payload []byte, err error)) func() []arrival {
	start := time.Now()
	var got []arrival
	go func() {
		buf := make([]byte, gridnet.MTU)
		for {
			b, err := read(buf)
			if err != nil {
				return
			}
			got = append(got, arrival{int(binary.BigEndian.Uint32(b)), time.Since(start)})
		}
	}()
	return func() []arrival { synctest.Wait(); return got }
}

func emulatedEnds(t *testing.T, n *gridnet.Network) ends {
	b := gridtest.Listen(t, n, "b0")
	var socks []*gridnet.Conn
	return ends{
		send: func(flow, id, size int) {
			for len(socks) <= flow {
				socks = append(socks, gridtest.Listen(t, n, "a0"))
			}
			buf := make([]byte, size-gridnet.HeaderBytes)
			binary.BigEndian.PutUint32(buf, uint32(id))
			if _, err := socks[flow].WriteTo(buf, b.LocalAddr()); err != nil {
				t.Error(err)
			}
		},
		arrived: collect(func(buf []byte) ([]byte, error) { k, _, err := b.ReadFrom(buf); return buf[:k], err }),
	}
}

func wiredEnds(t *testing.T, n *gridnet.Network) ends {
	a, b := attach(t, n, "a"), attach(t, n, "b")
	return ends{
		send: func(flow, id, size int) {
			p := gridnet.IPv4(addrPort(t, n, "a0", 4000+flow), addrPort(t, n, "b0", 4000), size)
			binary.BigEndian.PutUint32(p[gridnet.HeaderBytes:], uint32(id))
			if err := a.Write(p); err != nil {
				t.Error(err)
			}
		},
		arrived: collect(func(buf []byte) ([]byte, error) {
			k, err := b.Read(buf)
			return buf[min(k, gridnet.HeaderBytes):k], err
		}),
	}
}

func attach(t testing.TB, n *gridnet.Network, site string) *gridnet.Wire {
	t.Helper()
	w, err := n.Attach(site)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func addrPort(t testing.TB, n *gridnet.Network, host string, port int) netip.AddrPort {
	t.Helper()
	ip, err := n.Addr(host)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(ip, uint16(port))
}

// Packets of real hosts meet the same network as those of emulated ones on ports without
// limit: the same arrive, as late, and each counter of the link is the same.
func TestWireIsLikeConn(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name  string
		link  gridnet.Link
		flows int
		burst int // packets within some microseconds of each other
		gap   time.Duration
		lost  bool // some packets do not arrive
		mid   func(n *gridnet.Network) error
	}{
		{name: "rate", link: gridnet.Link{Rate: gridnet.Mbps, Latency: 50 * ms, Queue: 1000}, flows: 1, burst: 3, gap: 20 * ms},
		{name: "queue", link: gridnet.Link{Rate: gridnet.Mbps, Latency: 7 * ms, Queue: 10}, flows: 2, burst: 20, gap: 100 * ms, lost: true},
		{name: "loss", link: gridnet.Link{Latency: 5 * ms, Loss: 0.1}, flows: 1, burst: 4, gap: ms, lost: true},
		{name: "jitter", link: gridnet.Link{Latency: 20 * ms, Jitter: 9 * ms, Rate: 5 * gridnet.Mbps}, flows: 3, burst: 1, gap: 4 * ms},
		{name: "reorder", link: gridnet.Link{Latency: 20 * ms, Jitter: 9 * ms, Reorder: true}, flows: 1, burst: 1, gap: ms},
		{name: "ceiling", link: gridnet.Link{Rate: 4 * gridnet.Mbps, FlowRate: gridnet.Mbps, Latency: 30 * ms, Queue: 30}, flows: 5, burst: 40, gap: 60 * ms, lost: true},
		{name: "bucket", link: gridnet.Link{Rate: 10 * gridnet.Mbps, ShapeRate: gridnet.Mbps, ShapeBurst: 9000, Latency: ms}, flows: 1, burst: 10, gap: 100 * ms},
		{name: "set link", link: gridnet.Link{Rate: gridnet.Mbps, Latency: 50 * ms, Queue: 1000}, flows: 2, burst: 5, gap: 20 * ms,
			mid: func(n *gridnet.Network) error {
				return n.SetLink("a", "b", func(l *gridnet.Link) {
					l.Rate, l.FlowRate, l.Latency = 3*gridnet.Mbps, gridnet.Mbps, 20*ms
				})
			}},
		{name: "cut", link: gridnet.Link{Rate: gridnet.Mbps, Latency: 10 * ms}, flows: 1, burst: 2, gap: 20 * ms, lost: true,
			mid: func(n *gridnet.Network) error { return n.Cut("a", "b") }},
		{name: "cut host", link: gridnet.Link{Latency: 10 * ms}, flows: 1, burst: 2, gap: 20 * ms, lost: true,
			mid: func(n *gridnet.Network) error { return n.CutHost("b0") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const bursts, seed = 40, 3
			run := func(join func(*testing.T, *gridnet.Network) ends, ports gridnet.Site) (sent int, got []arrival, stats gridnet.Stats) {
				cfg := gridtest.Pair(tc.link)
				cfg.Seed = seed
				for i := range cfg.Sites {
					ports.Name, ports.Hosts = cfg.Sites[i].Name, cfg.Sites[i].Hosts
					cfg.Sites[i] = ports
				}
				gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
					e := join(t, n)
					rng := rand.New(rand.NewPCG(seed, 0))
					for i := range bursts {
						if i == bursts/2 && tc.mid != nil {
							if err := tc.mid(n); err != nil {
								t.Fatal(err)
							}
						}
						for range tc.burst {
							e.send(rng.IntN(tc.flows), sent, 40+rng.IntN(gridnet.MTU-39))
							sent++
							// Not at one instant: a port without limit takes a nanosecond for each.
							time.Sleep(time.Duration(1 + rng.IntN(20_000)))
						}
						time.Sleep(tc.gap)
					}
					time.Sleep(time.Minute)
					got, stats = e.arrived(), n.Stats()
				})
				return sent, got, stats
			}
			sent, want, emulated := run(emulatedEnds, gridnet.Site{})
			// None of this is in the way of a real host.
			slow := gridnet.Site{Rate: gridnet.Mbps / 100, Latency: ms, EgressQueue: 1, IngressQueue: 1, ReceiveJitter: time.Second}
			_, got, wired := run(wiredEnds, slow)
			if tc.lost != (len(want) < sent) || len(want) == 0 {
				t.Fatalf("%d of %d emulated packets arrived: the test shows less than it says", len(want), sent)
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d: %d real packets arrived, %d emulated", seed, len(got), len(want))
			}
			for i := range got {
				// The ports of the emulated hosts take a nanosecond each; a change of rate
				// scales what is left of a wait, and this difference with it.
				early := want[i].at - got[i].at
				if got[i].id != want[i].id || early < 0 || early > 100 {
					t.Fatalf("seed %d: arrival %d is %+v, emulated %+v", seed, i, got[i], want[i])
				}
			}
			for i, l := range wired.Links {
				if l != emulated.Links[i] {
					t.Errorf("seed %d: counters of the link differ:\n%+v\n%+v", seed, l, emulated.Links[i])
				}
			}
			if wired.Hosts[1].Ingress.Delivered != emulated.Hosts[1].Ingress.Delivered || wired.Hosts[0].Egress.Lost() != emulated.Hosts[0].Egress.Lost() {
				t.Errorf("seed %d: counters of the hosts differ:\n%+v\n%+v", seed, wired.Hosts, emulated.Hosts)
			}
		})
	}
}

// Over trunks a packet takes half of each end's latency, each cable's, and its transmission on each.
func TestWireOverTrunks(t *testing.T) {
	const rate = 8 * gridnet.Mbps // 1 µs a byte
	cfg := gridnet.Config{Sites: []gridnet.Site{
		{Name: "a", Hosts: []string{"a0"}, Latency: 3 * time.Millisecond},
		{Name: "x"},
		{Name: "b", Hosts: []string{"b0"}, Latency: 5 * time.Millisecond},
	}}
	for _, ends := range [][2]string{{"a", "x"}, {"x", "b"}} {
		cfg.Trunks = append(cfg.Trunks, gridnet.Link{From: ends[0], To: ends[1], Rate: rate, Latency: time.Millisecond})
	}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		e := wiredEnds(t, n)
		e.send(0, 7, 1000)
		e.send(0, 8, 500)
		time.Sleep(time.Second)
		ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
		want := []arrival{{7, ms(1.5 + 1 + 1 + 1 + 1 + 2.5)}, {8, ms(1.5 + 1 + 1 + 1 + 1 + 0.5 + 2.5)}}
		if got := e.arrived(); !slices.Equal(got, want) {
			t.Errorf("arrived %v, want %v", got, want)
		}
	})
}

// A seed gives one trace, whatever the scheduling of those who write to different wires at the
// same instant.
func TestWireTraceIsExact(t *testing.T) {
	const seed = 5
	run := func() (trace []gridnet.Event) {
		cfg := gridtest.ThreeSites()
		cfg.Seed = seed
		cfg.OnPacket = func(e gridnet.Event) { trace = append(trace, e) }
		for i := range cfg.Links {
			l := &cfg.Links[i]
			l.Loss, l.Jitter, l.FlowRate, l.Queue, l.Reorder = 0.05, 3*time.Millisecond, gridnet.Mbps, 10, i%2 == 0
		}
		gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
			var hosts []netip.AddrPort
			var first []int // host of each site
			for _, s := range cfg.Sites {
				first = append(first, len(hosts))
				for _, h := range s.Hosts {
					hosts = append(hosts, addrPort(t, n, h, 1))
				}
			}
			var wg sync.WaitGroup
			for i, s := range cfg.Sites {
				w := attach(t, n, s.Name)
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for range 200 {
						// Whole milliseconds make the wires meet.
						time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
						src := hosts[first[i]+rng.IntN(len(s.Hosts))]
						if err := w.Write(gridnet.IPv4(src, hosts[rng.IntN(len(hosts))], 28+rng.IntN(1400))); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Minute)
		})
		return trace
	}
	want := sorted(run())
	kinds := map[gridnet.Kind]int{}
	for _, e := range want {
		kinds[e.Kind]++
	}
	if kinds[gridnet.Sent] != 600 || kinds[gridnet.Delivered] == 0 || kinds[gridnet.Delivered]+kinds[gridnet.Dropped] != 600 {
		t.Errorf("seed %d: %v", seed, kinds)
	}
	for range 3 {
		if !slices.Equal(sorted(run()), want) {
			t.Fatalf("seed %d: another trace", seed)
		}
	}
}

// TestBlockUDP: a link that blocks UDP loses that of sockets and of wires, and lets a wire's TCP pass; one that blocks TCP loses that alone.
func TestBlockUDP(t *testing.T) {
	for _, c := range []struct {
		link   gridnet.Link
		passes byte
		why    gridnet.Reason
	}{
		{gridnet.Link{Latency: time.Millisecond, BlockUDP: true}, 6, gridnet.UDPBlocked},
		{gridnet.Link{Latency: time.Millisecond, BlockTCP: true}, 17, gridnet.TCPBlocked},
	} {
		gridtest.Run(t, gridtest.Pair(c.link), func(t *testing.T, n *gridnet.Network) {
			a, b := attach(t, n, "a"), attach(t, n, "b")
			for _, proto := range []byte{17, 6} {
				p := gridnet.IPv4(addrPort(t, n, "a0", 4000), addrPort(t, n, "b0", 4000), 500)
				p[9] = proto
				if err := a.Write(p); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			buf := make([]byte, gridnet.MTU)
			if k, ok := b.TryRead(buf); !ok || k != 500 || buf[9] != c.passes {
				t.Errorf("read %d bytes, %v, of protocol %d; want the packet of %d", k, ok, buf[9], c.passes)
			}
			if _, ok := b.TryRead(buf); ok {
				t.Errorf("not only protocol %d arrived", c.passes)
			}
			st := n.Stats()
			if l, _ := st.Link("a", "b"); l.Dropped[c.why].Packets != 1 || l.Delivered.Packets != 1 {
				t.Errorf("counters %+v", l)
			}
		})
	}
	link := gridnet.Link{Latency: time.Millisecond, BlockUDP: true}
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, n *gridnet.Network) {
		e := emulatedEnds(t, n)
		e.send(0, 1, 500)
		time.Sleep(time.Second)
		if got := e.arrived(); len(got) != 0 {
			t.Errorf("a socket's packet arrived: %v", got)
		}
	})
}
