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
	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

// In the steady state all that 20 hosts send takes at most 1 % of any link between sites
// of the paper's grid: trains, pings, their messages and what keeps connections alive. Bulk
// probes come a few times an hour, from the same budget, and are left out of these four minutes.
func TestSteadyPrice(t *testing.T) {
	if testing.Short() || gridtest.Race {
		t.Skip("7 minutes of 20 hosts")
	}
	cfg := gridtest.ThreeSites()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		kept := func() map[siteLink]int64 {
			all := make(map[siteLink]int64)
			for _, m := range ms {
				for _, c := range m.prober.Cost().Links {
					all[siteLink{c.From, c.To}] += c.LastHour
				}
			}
			return all
		}
		w.run(ms, true, func(context.Context) {
			time.Sleep(3 * time.Minute)
			before, trains, account := n.Stats(), w.bytes(), kept()
			const window = 4 * time.Minute
			time.Sleep(window)
			after, trains2, account2 := n.Stats(), w.bytes(), kept()
			for _, l := range cfg.Links {
				k := siteLink{l.From, l.To}
				a, _ := after.Link(l.From, l.To)
				b, _ := before.Link(l.From, l.To)
				total := float64(a.Delivered.Bytes - b.Delivered.Bytes)
				packets := float64(trains2[k]-trains[k]) / trainPayload
				watches := packets * (trainPayload + packetCost) * (1 + sessionCost/float64(slowTrain*(trainPayload+packetCost)))
				bulk := max(float64(account2[k]-account[k])-watches, 0)
				share := func(bytes float64) float64 { return 100 * bytes / float64(l.Rate) / window.Seconds() }
				t.Logf("%v: %.2f %% of the link, of which trains %.2f %%, bulk probes %.2f %%; a train every %.1f s",
					k, share(total), share(packets*(trainPayload+packetCost)), share(bulk), window.Seconds()/packets*slowTrain)
				if share(total-bulk) > 1 {
					t.Errorf("%v: %.2f %% of the link, and %.2f %% bulk", k, share(total), share(bulk))
				}
				if packets < window.Seconds()/20*slowTrain {
					t.Errorf("%v: %.0f packets of trains in %v", k, packets, window)
				}
			}
		})
	})
}

// A link that falls to a quarter is seen so by two senders and two receivers, which is
// what the map needs to correct their like, long before the half minute that it may take.
func TestFallIsSeen(t *testing.T) {
	if gridtest.Race {
		t.Skip("a world of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		w.run(ms, true, func(context.Context) {
			time.Sleep(90 * time.Second)
			if err := n.SetLink("a", "b", func(l *gridnet.Link) { l.Rate /= 4 }); err != nil {
				t.Fatal(err)
			}
			at, seen := time.Now(), false
			for !seen && time.Since(at) < time.Minute {
				time.Sleep(100 * time.Millisecond)
				from, to := make(map[string]bool), make(map[string]bool)
				w.mu.Lock()
				for k, e := range w.est {
					if w.site(k[0]) == "a" && w.site(k[1]) == "b" && apart(float64(e.Bandwidth), float64(truth(2.5*gridnet.Mbps))) < 0.15 {
						from[k[0]], to[k[1]] = true, true
					}
				}
				w.mu.Unlock()
				seen = len(from) >= 2 && len(to) >= 2
			}
			t.Logf("seen after %v", time.Since(at))
			if d := time.Since(at); d > 15*time.Second {
				t.Errorf("seen after %v, want at most 15 s", d)
			}
		})
	})
}

// During an exchange a suspect gets one train of 8 packets within two seconds, and its
// link no other for 10 s.
func TestSuspectDuringAnExchange(t *testing.T) {
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var busy atomic.Bool
		ms := w.joinAll(n, cfg, func(c *Config) { c.Busy = busy.Load })
		w.run(ms, true, func(context.Context) {
			time.Sleep(30 * time.Second)
			busy.Store(true)
			time.Sleep(2 * time.Second)
			link := siteLink{"a", "b"}
			before := w.bytes()
			ms[1].prober.Suspect("b0") // a1, which does not keep the link
			ms[1].prober.Suspect("b1")
			ms[1].prober.Suspect("nobody")
			time.Sleep(2 * time.Second)
			if got := w.bytes()[link] - before[link]; got != watchTrain*trainPayload {
				t.Errorf("%d bytes for a second opinion, want %d", got, watchTrain*trainPayload)
			}
			ms[1].prober.Suspect("b0")
			ms[0].prober.Suspect("b1")
			time.Sleep(5 * time.Second)
			if got := w.bytes()[link] - before[link]; got != watchTrain*trainPayload {
				t.Errorf("%d bytes within 10 s, want %d", got, watchTrain*trainPayload)
			}
			time.Sleep(30 * time.Second)
			after := w.bytes()
			if got := after[link] - before[link]; got > 4*watchTrain*trainPayload {
				t.Errorf("%d bytes in 40 s, want at most %d", got, 4*watchTrain*trainPayload)
			}
			for l, b := range after {
				if l != link && b != before[l] {
					t.Errorf("%v carried trains during the exchange", l)
				}
			}
		})
	})
}

// A long probe ends as soon as an exchange begins.
func TestLongProbeYields(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 2 * gridnet.Mbps, Latency: 100 * time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var busy atomic.Bool
		ms := w.joinAll(n, cfg, func(c *Config) { c.Busy = busy.Load })
		w.run(ms, false, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, KindCapacity, nil)
				failed <- err
			}()
			time.Sleep(3 * time.Second)
			moving := n.Stats()
			busy.Store(true)
			time.Sleep(500 * time.Millisecond) // what stands in queues drains
			before := n.Stats()
			time.Sleep(2 * time.Second)
			after := n.Stats()
			var busyErr *BusyError
			if err := <-failed; !errors.As(err, &busyErr) {
				t.Errorf("the probe ended with %v", err)
			}
			start, _ := moving.Link("a", "b")
			a, _ := after.Link("a", "b")
			b, _ := before.Link("a", "b")
			if start.Delivered.Bytes < 50e3 {
				t.Errorf("only %d bytes before the exchange: nothing was interrupted", start.Delivered.Bytes)
			}
			if got := a.Delivered.Bytes - b.Delivered.Bytes; got > 10e3 {
				t.Errorf("%d bytes in the two seconds after", got)
			}
		})
	})
}

// No host sends more in an hour than it may, whoever asks.
func TestHourlyCap(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		const most = 1 << 20
		ms := w.joinAll(n, cfg, func(c *Config) { c.HourlyCap = most })
		w.run(ms, true, func(ctx context.Context) {
			time.Sleep(5 * time.Minute)
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			for ctx.Err() == nil {
				if _, err := ms[0].prober.train(ctx, ms[1].peer); err != nil {
					time.Sleep(50 * time.Millisecond) // who is refused for the cap is told at once
				}
			}
		})
		for _, m := range ms {
			c := m.prober.Cost()
			if c.LastHour > most+maxTrain*2*(trainPayload+packetCost) || c.HourlyCap != most || c.Share != 0.01 {
				t.Errorf("%s: %+v", m.peer.Name, c)
			}
			if c.LastHour < most/4 {
				t.Errorf("%s sent %d bytes: the cap did not come into it", m.peer.Name, c.LastHour)
			}
		}
	})
}

// What an operator asks for is measured, here or by the host that the pair begins at.
func TestProbeOnce(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 10 * gridnet.Mbps, Latency: 10 * time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var model atomic.Pointer[logp.Model]
		ms := w.joinAll(n, cfg, func(c *Config) {
			c.RecordLogP = func(site string, m logp.Model) {
				if site == "b" {
					model.Store(&m)
				}
			}
		})
		w.run(ms, false, func(ctx context.Context) {
			near := func(what string, got, want netmap.BytesPerSec) {
				if math.Abs(float64(got/want)-1) > 0.1 {
					t.Errorf("%s: %.2f Mbit/s, want %.2f", what, got.Mbps(), want.Mbps())
				}
			}
			for k := KindRTT; k <= KindLogP; k++ {
				told := 0
				a, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, k, func(string, int64) { told++ })
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%v: %+v", k, a)
				if off := (a.RTT - 20*time.Millisecond).Abs(); off > time.Millisecond || a.Bytes <= 0 || a.Took <= 0 || told == 0 {
					t.Errorf("%v: %+v, told %d times", k, a, told)
				}
				if err := a.check(); err != nil {
					t.Errorf("%v: %v", k, err)
				}
				if k == KindBandwidth || k == KindCapacity {
					near(k.String(), a.Bandwidth, truth(10*gridnet.Mbps))
				}
				if k == KindCapacity {
					near("capacity", a.Capacity, truth(10*gridnet.Mbps))
				}
				if (k == KindLogP) != (len(a.LogP) > 0) || (k == KindLogP) != (model.Load() != nil) {
					t.Errorf("%v: %d points of LogP", k, len(a.LogP))
				}
			}
			from, to := ms[1].peer.Name, ms[0].peer.Name
			a, err := ms[0].prober.Ask(ctx, Question{From: from, To: to, Kind: "bandwidth"}, func(Progress) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			near("asked of the other host", a.Bandwidth, truth(10*gridnet.Mbps))
			if _, ok := w.known(from, to); !ok {
				t.Error("what the other host measured is not recorded")
			}
			if _, err := ms[0].prober.Ask(ctx, Question{From: from, To: "nobody"}, func(Progress) error { return nil }); err == nil {
				t.Error("nobody was measured")
			}
		})
	})
}
