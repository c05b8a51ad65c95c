package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestUnsure: a run that is not sure of the others sends a bounded part, concludes nothing from silence, is in no other exchange's way, and
// ends well when they come.
func TestUnsure(t *testing.T) {
	const (
		rate = 8 * gridnet.Mbps
		size = 600 << 10
		late = 45 * time.Second // over WaitStart: streams are turned away and come back
	)
	for _, known := range []bool{true, false} {
		if gridtest.Race && !known {
			continue // one is enough, at ten times the CPU time
		}
		c := &samples{of: make(map[string][]Sample), when: make(map[string][]time.Time)}
		w := way{rate: rate, latency: 20 * time.Millisecond, window: known}
		overGridnet(t, star(3, w.link()), 1, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
			p := newPlanner(plan.Allgather, 3)
			for o := range 3 {
				for d := range 3 {
					if o != d {
						p.add(o, d, plan.Block{Origin: o, Dest: plan.All})
					}
				}
			}
			p.p.MessageBytes = size
			j := newJob(t, rand.New(rand.NewPCG(1, 95)), p.p, 0)
			sure := make(chan struct{})
			begun := time.Now()
			var stats [3]Stats
			var wg sync.WaitGroup
			for h := range 3 {
				j.data[h].Sure = sure
				wg.Go(func() {
					if h == 2 {
						time.Sleep(late)
					}
					var err error
					if stats[h], err = g.engines[p.p.Hosts[h]].Run(t.Context(), j.parts[h], j.data[h]); err != nil {
						t.Errorf("host %d: %v", h, err)
					}
				})
			}
			time.Sleep(20 * time.Second)
			for h := range 2 {
				if n := j.data[h].Progress.Sent.Load(); n < maxUnsure || n > 2*maxUnsure {
					t.Errorf("host %d has sent %d bytes, want %d to one host and at most as many to the other", h, n, maxUnsure)
				}
			}
			other := newJob(t, rand.New(rand.NewPCG(2, 95)), p.p, 0)
			begin := time.Now()
			g.must(t, other)
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("another exchange of the same hosts took %v meanwhile", took)
			}
			time.Sleep(time.Until(begun.Add(late + time.Second)))
			close(sure)
			told := time.Now()
			wg.Wait()
			if took := time.Since(told); took > 3*time.Second {
				t.Errorf("known %v: the rest took %v", known, took)
			}
			for h := range 3 {
				if err := j.check(h); err != nil {
					t.Error(err)
				}
				if r := stats[h].Relief; r.Replanned != 0 || r.Detoured != 0 {
					t.Errorf("known %v: host %d took a late host for a link that fell: %+v", known, h, r)
				}
			}
			for host, all := range c.of {
				for _, s := range all {
					if s.Exchange == j.parts[0].ID && s.Begin.Before(told) {
						t.Errorf("%s: sample of a time in which a host was late: %s", host, show(s))
					}
				}
			}
		}, w.edit, c.edit)
	}
}

// TestUnsureTransit: runs that wait for late hosts leave memory for forwarding to others, however many they are.
func TestUnsureTransit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const size = 1000
		p := chain(3, size) // the second host forwards what it gets
		g := newFakeGrid(t, p.Hosts, func(c *Config) { c.MaxTransit = 100 * size })
		e := g.engines[p.Hosts[1]]
		sure := make(chan struct{})
		var wg sync.WaitGroup
		for seed := range uint64(80) {
			j := newJob(t, rand.New(rand.NewPCG(seed, 101)), p, 0)
			for i := range j.parts[1].Blocks { // what is only forwarded: nobody wants it here
				j.parts[1].Blocks[i].Role = Forward
			}
			wg.Go(func() {
				x := &run{part: j.parts[1], data: Data{Sure: sure}, ctx: t.Context()}
				e.hold(x)
				if err := e.begin(x); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		// Those that come at one instant may each take the last of it.
		if most := e.cfg.MaxTransit * 3 / 4; e.transit < size || e.transit > most {
			t.Errorf("runs that are not sure have reserved %d bytes, want some and %d at most", e.transit, most)
		}
		e.transit = 0
		close(sure)
		wg.Wait()
		g.accepts.Wait()
	})
}

// TestRefuse: who waits for an exchange that never begins is told so at once, and so is who comes later.
func TestRefuse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := ringPlan(2)
		p.MessageBytes = 1000
		g := newFakeGrid(t, p.Hosts, nil)
		j := newJob(t, rand.New(rand.NewPCG(1, 96)), p, 0)
		go func() {
			time.Sleep(time.Second)
			if g.engines[p.Hosts[1]].Known(j.parts[1].ID) {
				t.Error("an exchange that streams wait for has not begun, and is known")
			}
			g.engines[p.Hosts[1]].Refuse(j.parts[1].ID, "it has begun anew")
		}()
		begun := time.Now()
		_, err := g.engines[p.Hosts[0]].Run(context.Background(), j.parts[0], j.data[0])
		var refused *PeerError
		if !errors.As(err, &refused) || time.Since(begun) > 2*time.Second {
			t.Errorf("%v after %v, want the peer's refusal after a second", err, time.Since(begun))
		}
		if _, err := g.engines[p.Hosts[1]].Run(context.Background(), j.parts[1], j.data[1]); !errors.Is(err, ErrRunning) {
			t.Errorf("what was refused runs: %v", err)
		}
		for h, e := range g.engines { // one has failed
			if !e.Known(j.parts[0].ID) || e.Known(ID{9}) {
				t.Errorf("%s does not know the exchange, or one that was never begun", h)
			}
		}
		g.accepts.Wait()
	})
}

// TestShown: a run that is not sure of the others lands when it has bytes of all of them, if it was told that this shows that they have begun,
// and else does not before the word: its result may be of no use.
func TestShown(t *testing.T) {
	for _, shown := range []bool{true, false} {
		overGridnet(t, star(3, way{rate: 8 * gridnet.Mbps, latency: 20 * time.Millisecond}.link()), 1, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
			p := newPlanner(plan.Allgather, 3)
			for o := range 3 {
				p.add(o, (o+1)%3, plan.Block{Origin: o, Dest: plan.All})
				p.add((o+1)%3, (o+2)%3, plan.Block{Origin: o, Dest: plan.All})
			}
			p.p.MessageBytes = 10 << 10
			j := newJob(t, rand.New(rand.NewPCG(3, 95)), p.p, 0)
			sure := make(chan struct{})
			const late, told = time.Second, 3 * time.Second
			begun := time.Now()
			var landed, ended [3]time.Duration
			var wg sync.WaitGroup
			for h := range 3 {
				j.data[h].Sure, j.data[h].Shown = sure, shown
				j.data[h].Landed = func(Stats) {
					landed[h] = time.Since(begun)
					if err := j.check(h); err != nil {
						t.Error(err)
					}
				}
				wg.Go(func() {
					if h == 2 {
						time.Sleep(late)
					}
					if _, err := g.engines[p.p.Hosts[h]].Run(t.Context(), j.parts[h], j.data[h]); err != nil {
						t.Errorf("host %d: %v", h, err)
					}
					ended[h] = time.Since(begun)
				})
			}
			time.Sleep(told)
			close(sure)
			wg.Wait()
			early := 0
			for h := range 3 {
				if landed[h] != 0 && landed[h] < told {
					early++
				}
				if ended[h] < late || ended[h] > told {
					t.Errorf("shown %v: host %d ended after %v; the last began at %v", shown, h, ended[h], late)
				}
			}
			if shown != (early > 0) { // not where that is the moment at which it ends
				t.Errorf("shown %v: %d hosts landed before the word", shown, early)
			}
		})
	}
}
