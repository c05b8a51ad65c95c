package exchange

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// samples collects what engines observe, by host.
type samples struct {
	mu    sync.Mutex
	of    map[string][]Sample
	when  map[string][]time.Time
	began time.Time
}

type edit = func(*Config, *lane.Config)

func (c *samples) edit(cfg *Config, _ *lane.Config) {
	self := cfg.Self
	cfg.Observe = func(s Sample) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of[self] = append(c.of[self], s)
		c.when[self] = append(c.when[self], time.Now())
	}
}

func (c *samples) log(t *testing.T) {
	for h, ss := range c.of {
		for i, s := range ss {
			t.Logf("%s: %s", h, show(s)+" at "+c.when[h][i].Format("05.000"))
		}
	}
}

func show(s Sample) string {
	return fmt.Sprintf("→%s lane %d %s +%4dms %7d B %6.3f Mbit/s %v rtt %v lanes %d/%d before %.3f mean %.3f", s.Peer, s.Lane, s.Begin.Format("05.000"), s.Duration.Milliseconds(), s.Bytes,
		float64(s.Rate())/125e3, s.Limit, s.RTT.Round(time.Millisecond), s.PeerLanes, s.SiteLanes, float64(s.Before)/125e3, float64(s.Mean)/125e3)
}

// payload is the share of the IP bytes on a link that QUIC's streams carry at best.
const payload = 0.954

// chain sends host 0's block along the hosts.
func chain(n int, size int64) *plan.Plan {
	b := newPlanner(plan.Allgather, n)
	for h := range n - 1 {
		b.add(h, h+1, plan.Block{Origin: 0, Dest: plan.All})
	}
	for o := 1; o < n; o++ {
		for h := range n {
			if h != o {
				b.add(o, h, plan.Block{Origin: o, Dest: plan.All})
			}
		}
	}
	b.p.Sizes = make([]int64, n)
	b.p.Sizes[0] = size
	return b.p
}

// observed runs p over the network of cfg and returns what was sampled, and when.
func observed(t *testing.T, cfg gridnet.Config, lanes int, p *plan.Plan, change func(*gridnet.Network, *quicGrid), edits ...edit) *samples {
	t.Helper()
	c := &samples{of: make(map[string][]Sample), when: make(map[string][]time.Time)}
	overGridnet(t, cfg, lanes, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
		c.began = time.Now()
		if change != nil {
			change(n, g)
		}
		st := g.must(t, newJob(t, rand.New(rand.NewPCG(1, 90)), p, 0))
		for h, name := range p.Hosts {
			c.check(t, name, st[h])
		}
	}, append(edits, c.edit)...)
	if t.Failed() {
		c.log(t)
	}
	return c
}

// check checks what holds for all samples of a host.
func (c *samples) check(t *testing.T, host string, st Stats) {
	t.Helper()
	end := make(map[string]time.Time) // of the last sample of each lane
	bytes := make(map[string]int64)
	for _, s := range c.of[host] {
		lane := fmt.Sprint(s.Peer, s.Lane)
		if s.Begin.Before(end[lane]) || s.Duration <= 0 || s.Bytes < 0 || s.PeerLanes < 1 || s.SiteLanes < s.PeerLanes {
			t.Errorf("%s: bad sample %s", host, show(s))
		}
		end[lane] = s.Begin.Add(s.Duration)
		bytes[s.Peer] += s.Bytes
	}
	for peer, n := range bytes {
		if n > st.Peers[peer].Sent+st.Peers[peer].Resent {
			t.Errorf("%s→%s: samples of %d bytes, %d were sent", host, peer, n, st.Peers[peer].Sent)
		}
	}
}

// limited returns the samples of host that the network limited.
func (c *samples) limited(host string) (ss []Sample) {
	for _, s := range c.of[host] {
		if s.Limit == Network {
			ss = append(ss, s)
		}
	}
	return ss
}

// A way is a link, and whether the engine is told of it.
type way struct {
	rate    gridnet.Rate
	latency time.Duration
	loss    float64
	window  bool
}

func (w way) String() string {
	return fmt.Sprintf("%v Mbit/s, %v, loss %v, window %v", float64(w.rate/gridnet.Mbps), w.latency, w.loss, w.window)
}

func (w way) link() gridnet.Link {
	return gridnet.Link{Rate: w.rate, Latency: w.latency, Loss: w.loss}
}

// edit makes the engine know w, if it is to.
func (w way) edit(c *Config, _ *lane.Config) {
	if w.window {
		c.Path = func(string) Path {
			return Path{RTT: 2 * w.latency, Rate: netmap.BytesPerSec(w.rate * payload), Flows: 1}
		}
	}
}

// takes returns the bytes that w carries in d.
func (w way) takes(d time.Duration) int64 { return int64(float64(w.rate) * d.Seconds()) }

// TestSampleTruth: one flow alone gets the link, and the samples say so within 5 %.
func TestSampleTruth(t *testing.T) {
	if gridtest.Race {
		t.Skip("worlds of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, w := range []way{
		{1.16 * gridnet.Mbps, 50 * time.Millisecond, 0, true},
		{2 * gridnet.Mbps, 25 * time.Millisecond, 0, false},
		{2 * gridnet.Mbps, 25 * time.Millisecond, 0, true},
		{2 * gridnet.Mbps, 100 * time.Millisecond, 0, true},
		{20 * gridnet.Mbps, 10 * time.Millisecond, 0, false},
		{20 * gridnet.Mbps, 10 * time.Millisecond, 0, true},
		{20 * gridnet.Mbps, 10 * time.Millisecond, 0.001, false},
	} {
		t.Run(w.String(), func(t *testing.T) {
			c := observed(t, star(2, w.link()), 1, chain(2, w.takes(7*time.Second)), nil, w.edit)
			truth := payload * float64(w.rate)
			ss := c.limited("host0")
			if len(ss) < 2 {
				t.Errorf("%d samples were limited by the network in 7 s, want at least 2", len(ss))
			}
			for _, s := range ss {
				if r := float64(s.Rate()) / truth; r < 0.95 || r > 1.05 {
					t.Errorf("%.3f of the truth: %s", r, show(s))
				}
				if s.SiteLanes != 1 {
					t.Errorf("one lane, and %d seen: %s", s.SiteLanes, show(s))
				}
			}
			if t.Failed() {
				c.log(t)
			}
		})
	}
}

// TestSampleApplication: what is not the network's doing is not said to be.
func TestSampleApplication(t *testing.T) {
	if gridtest.Race {
		t.Skip("worlds of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	none := func(t *testing.T, c *samples, host string) {
		t.Helper()
		if len(c.of[host]) < 3 {
			t.Errorf("%s: %d samples: the test tests nothing", host, len(c.of[host]))
		}
		for _, s := range c.limited(host) {
			t.Errorf("%s: limited by the network: %s", host, show(s))
		}
		if t.Failed() {
			c.log(t)
		}
	}
	for _, window := range []bool{false, true} {
		w := way{2 * gridnet.Mbps, 25 * time.Millisecond, 0, window}
		t.Run(fmt.Sprintf("starved by the hop before, window %v", window), func(t *testing.T) {
			cfg := star(3, w.link())
			for i := range cfg.Links {
				if cfg.Links[i].From == "s1" {
					cfg.Links[i].Rate = 3 * gridnet.Mbps
				}
			}
			none(t, observed(t, cfg, 1, chain(3, w.takes(6*time.Second)), nil, w.edit), "host1")
		})
		t.Run(fmt.Sprintf("slow reader, window %v", window), func(t *testing.T) {
			w := way{20 * gridnet.Mbps, 25 * time.Millisecond, 0, window}
			slow := func(_ *gridnet.Network, g *quicGrid) { g.lag = func() { time.Sleep(10 * time.Millisecond) } }
			none(t, observed(t, star(2, w.link()), 1, chain(2, 3<<20), slow, w.edit), "host0")
		})
	}
	t.Run("flow-control window under the path's product", func(t *testing.T) {
		w := way{60 * gridnet.Mbps, 200 * time.Millisecond, 0, false}
		small := func(_ *Config, l *lane.Config) { l.WindowBudget = 1 }
		none(t, observed(t, star(2, w.link()), 1, chain(2, 12<<20), nil, small), "host0")
	})
}

// TestSampleFall: a link that falls to a quarter, or is cut, is told within 2 s by a
// sample of a second or more.
func TestSampleFall(t *testing.T) {
	if gridtest.Race {
		t.Skip("a dozen worlds: run without the race detector, under which TestSampleShared samples too")
	}
	for _, window := range []bool{false, true} {
		for i := range 6 {
			at := 3*time.Second + time.Duration(i)*190*time.Millisecond
			cut := i == 5
			w := way{2 * gridnet.Mbps, 25 * time.Millisecond, 0, window}
			c := observed(t, star(2, w.link()), 1, chain(2, w.takes(6*time.Second)), func(n *gridnet.Network, _ *quicGrid) {
				time.AfterFunc(at, func() {
					if !cut {
						n.SetLink("s0", "s1", func(l *gridnet.Link) { l.Rate /= 4 })
						return
					}
					n.Cut("s0", "s1")
					time.Sleep(4 * time.Second)
					n.Heal("s0", "s1")
				})
			}, w.edit)
			told := time.Duration(-1)
			for k, s := range c.of["host0"] {
				low := s.Limit == Network && s.Duration >= time.Second && s.Rate() < fallen*s.Mean
				after := c.when["host0"][k].Sub(c.began) - at
				if low && after < 0 {
					t.Errorf("window %v: told %v before the fall: %s", window, -after, show(s))
				}
				if low && told < 0 {
					told = after
				}
			}
			t.Logf("window %v, cut %v at %v: told after %v", window, cut, at, told)
			if told < 0 || told > 2*time.Second {
				t.Errorf("window %v, cut %v at %v: told after %v, want 2s at most", window, cut, at, told)
				c.log(t)
			}
		}
	}
}

// TestSampleShared: lanes that share a way know of each other.
func TestSampleShared(t *testing.T) {
	w := way{4 * gridnet.Mbps, 25 * time.Millisecond, 0, false}
	t.Run("two lanes to a peer", func(t *testing.T) {
		c := observed(t, star(2, w.link()), 2, chain(2, w.takes(8*time.Second)), nil)
		ss := c.limited("host0")
		if len(ss) < 4 {
			t.Errorf("%d samples were limited by the network, want at least 4", len(ss))
			c.log(t)
		}
		for _, s := range ss {
			// Lane 0 carries what comes before the two are open, and its last bytes may be under way a little longer.
			first := s.Begin.Sub(c.began) < time.Second
			if n := s.PeerLanes; s.SiteLanes != n || n != 2 && !(first && n == 3) {
				t.Errorf("two lanes: %s", show(s))
			}
		}
	})
	t.Run("two peers of a site", func(t *testing.T) {
		cfg := gridnet.Config{
			Sites: []gridnet.Site{{Name: "a", Hosts: []string{"host0"}}, {Name: "b", Hosts: []string{"host1", "host2"}}},
			Links: []gridnet.Link{{From: "a", To: "b", Rate: w.rate, Latency: w.latency}, {From: "b", To: "a", Rate: w.rate, Latency: w.latency}},
		}
		b := newPlanner(plan.Allgather, 3)
		for o := range 3 {
			for h := range 3 {
				if h != o {
					b.add(o, h, plan.Block{Origin: o, Dest: plan.All})
				}
			}
		}
		b.p.Sizes = []int64{w.takes(4 * time.Second), 0, 0}
		site := func(c *Config, _ *lane.Config) {
			c.Site = func(host string) string { return map[bool]string{true: "a", false: "b"}[host == "host0"] }
		}
		c := observed(t, cfg, 1, b.p, nil, site)
		shared := 0
		end := make(map[string]time.Time) // of the lane to each peer
		for _, s := range c.of["host0"] {
			end[s.Peer] = s.Begin.Add(s.Duration)
		}
		for _, s := range c.limited("host0") {
			if s.PeerLanes != 1 {
				t.Errorf("one lane to each peer: %s", show(s))
			}
			// The one that ends last has the link for itself in the end. The other counts until a look has found
			// nothing new of it, so one sample of the last may hold little of the other's.
			other := end[map[string]string{"host1": "host2", "host2": "host1"}[s.Peer]]
			edge := s.SiteLanes == 2 && s.Begin.Before(other.Add(2*lookEvery)) && s.Begin.Add(s.Duration).After(other)
			if full := float64(s.Rate()) > 0.9*payload*float64(w.rate); full != (s.SiteLanes == 1) && !edge {
				t.Errorf("a lane to each of two peers of a site: %s", show(s))
			}
			if s.SiteLanes == 2 {
				shared++
			}
		}
		if shared < 4 {
			t.Errorf("%d samples were limited by the network and shared, want at least 4", shared)
			c.log(t)
		}
	})
}
