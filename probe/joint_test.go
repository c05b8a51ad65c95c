package probe

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestJointLook: of a link that is faster than the ports of its hosts the map says what several of them get together, without any exchange, and of one that is
// no faster that it carries no more than a port. A pair of hosts is believed to get what its ports carry.
func TestJointLook(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of eight hosts: scripts/test runs it without the race detector")
	}
	const ms, port = time.Millisecond, 20
	for _, tt := range []struct {
		name        string
		link        gridnet.Link
		least, most float64 // Mbit/s for all pairs
	}{
		{"three ports", gridnet.Link{Rate: 60 * gridnet.Mbps, Latency: 20 * ms}, 48, 61},
		{"more than all ports", gridnet.Link{Rate: 500 * gridnet.Mbps, Latency: 5 * ms}, 64, 81},
		{"a flow gets half a port", gridnet.Link{Rate: 60 * gridnet.Mbps, FlowRate: 10 * gridnet.Mbps, Latency: 20 * ms}, 48, 61},
		{"one port", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 20 * ms}, 17, 21},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := sitesOver(tt.link, 4)
			for i := range cfg.Sites {
				cfg.Sites[i].Rate = port * gridnet.Mbps
			}
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := &bulkWorld{world: newWorld(t), n: n}
				members := w.joinSites(cfg)
				w.run(members, true, func(context.Context) {
					time.Sleep(100 * time.Second)
					s := netmap.Predict(w.snapshot())
					for i := range s.N() {
						for j := range s.N() {
							if s.Host(i).Site == s.Host(j).Site {
								continue
							}
							one, _ := s.Capacity(i, j)
							all, _ := s.Link(i, j)
							if all.Mbps() < tt.least || all.Mbps() > tt.most {
								t.Errorf("%s→%s: the link is believed to carry %.1f Mbit/s, want %v to %v", s.Host(i).Name, s.Host(j).Name, all.Mbps(), tt.least, tt.most)
							}
							if one.Mbps() > port {
								t.Errorf("%s→%s: %.1f Mbit/s for one pair of hosts, whose ports have %v", s.Host(i).Name, s.Host(j).Name, one.Mbps(), port)
							}
						}
					}
				})
			})
		})
	}
}

// jointWorld is two sites of three hosts whose probers serve and begin nothing themselves: a1 can be made busy.
func jointWorld(t *testing.T, f func(ctx context.Context, w *bulkWorld, a, b []*member, busy *atomic.Bool)) {
	cfg := sitesOver(gridnet.Link{Rate: 60 * gridnet.Mbps, Latency: 20 * time.Millisecond}, 3)
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w, busy := &bulkWorld{world: newWorld(t), n: n}, new(atomic.Bool)
		var members []*member
		for _, s := range cfg.Sites {
			for _, h := range s.Hosts {
				members = append(members, w.joinLanes(h, s.Name, func(c *Config) {
					if c.Self.Name == "a1" {
						c.Busy = busy.Load
					}
				}))
			}
		}
		w.run(members, false, func(ctx context.Context) { f(ctx, w, members[:3], members[3:], busy) })
	})
}

// jointOf is what the tests ask for: ready, if it is called, returns what begin does.
func jointOf(begin func(context.Context) error) jointly {
	return jointly{lanes: 2, settle: 400 * time.Millisecond, span: 400 * time.Millisecond, bytes: 16 << 20, ready: begin}
}

// TestJointAsked: a host sends for hosts of its own site, to others, when it has the time, and ends with whoever has asked.
func TestJointAsked(t *testing.T) {
	jointWorld(t, func(ctx context.Context, w *bulkWorld, a, b []*member, busy *atomic.Bool) {
		now := func(context.Context) error { return nil }
		ask := func(m *member, from, to string) jointResult {
			return m.prober.askJoint(ctx, jointPair{from, to}, jointOf(now), 60*netmap.Mbps)
		}
		if r := ask(a[0], "a1", "b1"); r.err != nil || !(math.Abs(r.rate/linkTruth(60*gridnet.Mbps)-1) < 0.1) || r.bytes == 0 {
			w.t.Errorf("alone: %+v, want %.3g bytes a second", r, linkTruth(60*gridnet.Mbps))
		}
		refused := func(what string, r jointResult) {
			w.t.Helper()
			if !errors.As(r.err, new(*BusyError)) || r.rate != 0 {
				w.t.Errorf("%s: %+v, want to be refused", what, r)
			}
		}
		refused("by a host of another site", ask(b[0], "a1", "b1"))
		refused("to a host of its own site", ask(a[0], "a1", "a2"))
		refused("to nobody", ask(a[0], "a1", "c0"))
		release, _ := b[1].prober.takeSlot(ctx)
		refused("to a host that is taken", ask(a[0], "a1", "b1"))
		release()
		busy.Store(true)
		refused("in an exchange", ask(a[0], "a1", "b1"))
		busy.Store(false)

		leave, cancel := context.WithCancel(ctx)
		if r := a[0].prober.askJoint(leave, jointPair{"a1", "b1"}, jointOf(func(ctx context.Context) error {
			cancel()
			return context.Cause(ctx)
		}), 60*netmap.Mbps); r.err == nil {
			w.t.Errorf("the leader has left: %+v", r)
		}
		time.Sleep(time.Second)
		if len(a[1].prober.slot) != 0 || len(b[1].prober.slot) != 0 {
			w.t.Error("the leader has left, and slots are still taken")
		}
		time.AfterFunc(500*time.Millisecond, func() { busy.Store(true) })
		if r := ask(a[0], "a1", "b1"); r.err == nil {
			w.t.Errorf("an exchange has begun: %+v", r)
		}
	})
}

// TestJointTogether: those count that were ready, over the same time, and one host alone says nothing.
func TestJointTogether(t *testing.T) {
	jointWorld(t, func(ctx context.Context, w *bulkWorld, a, b []*member, busy *atomic.Bool) {
		l := longProbe{kind: KindCapacity, peer: b[0].peer, rate: 60 * netmap.Mbps, held: 60 * netmap.Mbps, rtt: 40 * time.Millisecond, lanes: 2}
		send := func() (sum float64, n int) {
			for i, r := range a[0].prober.sendJointly(ctx, l, jointOf(nil), []jointPair{{"", "b0"}, {"a1", "b1"}, {"a2", "b2"}}) {
				if sum += r.rate; r.rate > 0 {
					n++
				} else if r.err == nil {
					w.t.Errorf("pair %d has neither a rate nor an error", i)
				}
			}
			return sum, n
		}
		check := func(what string, pairs int) {
			w.t.Helper()
			if sum, n := send(); n != pairs || pairs > 0 && !(math.Abs(sum/linkTruth(60*gridnet.Mbps)-1) < 0.1) {
				w.t.Errorf("%s: %d pairs got %.3g bytes a second, want %d and %.3g", what, n, sum, pairs, linkTruth(60*gridnet.Mbps))
			}
		}
		check("all", 3)
		busy.Store(true)
		check("one is busy", 2)
		release, _ := a[2].prober.takeSlot(ctx)
		check("both others are", 0)
		release()
		busy.Store(false)
		release, _ = b[0].prober.takeSlot(ctx)
		check("the leader's own peer is", 0)
		release()
		check("all again", 3)

		a[1].prober.rec.jointly("b0", 1e6, time.Now())
		a[1].prober.serveJointly("a0", message{Rate: 2e6}) // of its own site: nobody else may say that
		if e, ok := w.known("a0", "a1"); ok && e.Has(netmap.FieldCarried) {
			w.t.Errorf("a host of the same site says what the link between sites carries: %+v", e)
		}
		if c := a[1].prober.rec.pair("b0").carried; c.rate != 1e6 || time.Until(c.until) != jointKept {
			w.t.Errorf("kept: %+v", c)
		}
		a[1].prober.rec.jointly("b0", math.NaN(), time.Now())
		a[1].prober.rec.jointly("b0", 0, time.Now())
		if c := a[1].prober.rec.pair("b0").carried; c.rate != 1e6 {
			w.t.Errorf("what is no rate: %+v", c)
		}
	})
}
