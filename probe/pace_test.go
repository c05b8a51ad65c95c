package probe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// However many fast links a host watches, trains to other sites leave some of its cap at any time, whatever long probes took of it
// before, and some trains are sent in each five minutes. A short train of a slow link does not wait for those of fast ones.
func TestPaceLastsTheHour(t *testing.T) {
	const most = 256 << 20
	for _, links := range []int{1, 4, 20} {
		for _, long := range []int64{0, most * 3 / 4} {
			var c pace
			var a account
			start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			a.add(start, long)
			var each [36]int
			slow, least := 0, int64(most)
			for at := time.Duration(0); at < 3*time.Hour; at += watchGap {
				now := start.Add(at)
				for range links {
					if left := most - a.total(now); c.wait(now, watch, maxTrain*trainPayload, left) == 0 {
						a.add(now, 600_000)
						c.spend(now, 600_000, left)
						each[at/(5*time.Minute)]++
					}
				}
				least = min(least, most-a.total(now))
				if at%(15*time.Second) != 0 { // which the link's own budget allows
					continue
				}
				if left := most - a.total(now); c.wait(now, watch, watchCost, left) == 0 {
					slow++
					a.add(now, watchCost)
					c.spend(now, watchCost, left)
				}
			}
			if least < most/10 {
				t.Errorf("%d links, %d bytes of long probes: %d of %d bytes are left at worst", links, long, least, most)
			}
			for i, n := range each {
				if n == 0 {
					t.Errorf("%d links, %d bytes of long probes: no train of a fast link from minute %d to %d", links, long, 5*i, 5*i+5)
				}
			}
			if slow < 5*60 {
				t.Errorf("%d links, %d bytes of long probes: %d trains of a slow link in three hours", links, long, slow)
			}
		}
	}
	var c pace
	if d := c.wait(time.Now(), watch, watchCost, 0); d != 0 {
		t.Errorf("who owes nothing waits %v", d) // the cap itself is looked at before
	}
}

// Trains inside a fast site leave some of the cap for an hour, too, where long probes have taken most of it.
func TestInsideLeavesSomeOfTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, session = 256 << 20, 350_000
		p := &Prober{cfg: Config{Share: 0.01, HostBurst: 16 << 20, HourlyCap: most}}
		p.charge(most * 3 / 4)
		sent := 0
		for range 55 * 60 {
			if p.budget.wait(time.Now(), again, firstCost, p.hostTerms()) == 0 {
				sent++
				p.charge(session)
				p.budget.spend(time.Now(), again, session, 3e8, p.hostTerms())
			}
			time.Sleep(time.Second)
		}
		if left := p.left(); left < most/20 || sent < 55 {
			t.Errorf("%d sessions, and %d of %d bytes are left", sent, left, most)
		}
	})
}

// Two hosts at two sites with a fast link between them measure it, and do so still when an hour is over.
func TestFastLinkLastsTheHour(t *testing.T) {
	if gridtest.Race {
		t.Skip("an hour: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := gridtest.Pair(gridnet.Link{Rate: 2500 * gridnet.Mbps, Latency: 100 * time.Microsecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		w.run(ms, true, func(context.Context) {
			for at := 5 * time.Minute; at <= 70*time.Minute; at += 5 * time.Minute {
				before := [2]int64{w.bytes()[siteLink{"a", "b"}], w.bytes()[siteLink{"b", "a"}]}
				time.Sleep(5 * time.Minute)
				for i, m := range ms {
					c, s := m.prober.Cost(), m.prober.Stats()
					now := w.bytes()[[]siteLink{{"a", "b"}, {"b", "a"}}[i]]
					t.Logf("%v, %s: %d MiB in the last hour, trains %d kB, %d sessions, %d long", at, m.peer.Name, c.LastHour>>20, (now-before[i])/1000, s.Sessions, s.Bulks)
					if c.LastHour > c.HourlyCap*9/10 {
						t.Errorf("after %v %s has sent %d of %d bytes", at, m.peer.Name, c.LastHour, c.HourlyCap)
					}
					if now == before[i] {
						t.Errorf("after %v %s sent no train for five minutes", at, m.peer.Name)
					}
				}
			}
			for i, m := range ms {
				e, ok := w.known(m.peer.Name, ms[1-i].peer.Name)
				if age := time.Since(e.Measured); !ok || age > 5*time.Minute || e.Bandwidth < truth(2500*gridnet.Mbps)/2 {
					t.Errorf("%s: %+v, of %v ago", m.peer.Name, e, age)
				}
			}
		})
	})
}
