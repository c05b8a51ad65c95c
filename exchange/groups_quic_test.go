package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// twoSites is the second grid of Gupta & Vadhiyar (HPDC 2007).
const twoSites = `
sites:
  - {name: UK,  hosts: 4, lan: {bandwidth: 289.33Mbps, latency: 60us}}
  - {name: NTH, hosts: 8, lan: {bandwidth: 81.86Mbps, latency: 6us}}
wan:
  - {from: UK, to: NTH, bandwidth: 4.75Mbps, latency: 76ms, both: true}
`

// A seen is what was measured in one world, beside the most that it may be.
type seen struct {
	what      string
	got, most float64
	every     bool // in every world; else in the median of them
}

// overTwoSites calls f in five worlds: engines of [twoSites] that know its map and have open lanes. lost returns how many packets links have
// lost. Of times the median is judged: which goroutine of one instant runs first is the scheduler's to say, and one world in
// twelve takes a fifth longer than most.
func overTwoSites(t *testing.T, f func(t *testing.T, w *world, g *quicGrid, lost func() int) []seen) {
	if gridtest.Race {
		t.Skip("megabytes: run without the race detector, which multiplies its CPU time by ten")
	}
	var worlds [5][]seen
	for i := range worlds {
		inTwoSites(t, func(t *testing.T, w *world, g *quicGrid, lost func() int) { worlds[i] = f(t, w, g, lost) })
		if t.Failed() {
			return
		}
	}
	for k, m := range worlds[0] {
		var all []float64
		for _, w := range worlds {
			all = append(all, w[k].got)
		}
		slices.Sort(all)
		t.Logf("%s: %.2f", m.what, all)
		got := all[len(all)/2]
		if m.every {
			got = all[len(all)-1]
		}
		if got > m.most {
			t.Errorf("%s: %.2f in the worlds; %.2f counts, want at most %.2f", m.what, all, got, m.most)
		}
	}
}

func inTwoSites(t *testing.T, f func(t *testing.T, w *world, g *quicGrid, lost func() int)) {
	w := newWorld(t, twoSites)
	p := w.allgather(t, 16<<10)
	cfg, err := gridnet.FromGrid(w.file)
	if err != nil {
		t.Fatal(err)
	}
	site, index := make(map[string]string), make(map[string]int)
	for h := range w.snap.N() {
		site[w.snap.Host(h).Name], index[w.snap.Host(h).Name] = w.snap.Host(h).Site, h
	}
	overGridnet(t, cfg, 0, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
		g.must(t, newJob(t, rand.New(rand.NewPCG(1, 96)), p, 0)) // lanes are open
		time.Sleep(time.Second)
		f(t, w, g, func() (lost int) {
			for _, l := range n.Stats().Links {
				lost += int(l.Lost().Packets)
			}
			return lost
		})
	}, func(c *Config, _ *lane.Config) {
		self := c.Self
		c.Lanes = nil
		c.Site = func(h string) string { return site[h] }
		c.Path = func(h string) Path {
			e := w.snap.Estimate(index[self], index[h])
			if 2*e.Latency < 2*time.Millisecond {
				return Path{}
			}
			return Path{RTT: 2 * e.Latency, Rate: e.Bandwidth, Capacity: e.Bandwidth}
		}
	})
}

// together runs jobs at once, and returns what each took.
func together(t *testing.T, g *quicGrid, jobs []*job) []time.Duration {
	took := make([]time.Duration, len(jobs))
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			for _, s := range g.must(t, jobs[i]) {
				took[i] = max(took[i], s.Elapsed)
			}
		})
	}
	wg.Wait()
	return took
}

// jobsOf returns n jobs that run p.
func jobsOf(t *testing.T, seed uint64, p *plan.Plan, n int) []*job {
	rng := rand.New(rand.NewPCG(seed, 97))
	jobs := make([]*job, n)
	for i := range jobs {
		jobs[i] = newJob(t, rng, p, 0)
	}
	return jobs
}

// TestGroups: exchanges over the same hosts that begin at one instant take about as long as each other, and all of them not
// much longer than one with the bytes of all. Windows of each exchange alone lost 830 packets.
func TestGroups(t *testing.T) {
	const groups, size = 12, 16 << 10
	overTwoSites(t, func(t *testing.T, w *world, g *quicGrid, lost func() int) []seen {
		bound, err := w.net.AllgatherBound(slices.Repeat([]int64{groups * size}, w.snap.N()))
		if err != nil {
			t.Fatal(err)
		}
		before := lost()
		took := together(t, g, jobsOf(t, 1, w.allgather(t, size), groups))
		return append(atOnce(took, bound.Seconds, 1.4, 1.5), seen{"packets lost", float64(lost() - before), 700, true}) // 1.17 to 1.46
	})
}

// TestGroupsAlltoall is TestGroups of alltoalls: 1.36 to 1.94 times the bound, 1.5 in the mean; it was 1.76 with windows of each exchange alone.
func TestGroupsAlltoall(t *testing.T) {
	const groups, size = 12, 2 << 10
	overTwoSites(t, func(t *testing.T, w *world, g *quicGrid, _ func() int) []seen {
		bounds, err := w.net.AlltoallBounds(plan.AlltoallSizes{Uniform: groups * size})
		if err != nil {
			t.Fatal(err)
		}
		return atOnce(together(t, g, jobsOf(t, 2, w.alltoall(t, size), groups)), bounds.Relayed.Seconds, 1.7, 1.5)
	})
}

// atOnce returns what exchanges took that began at once: all of them at most most times the bound, and the slowest unfair times the fastest.
func atOnce(took []time.Duration, bound, most, unfair float64) []seen {
	first, last := slices.Min(took).Seconds(), slices.Max(took).Seconds()
	return []seen{{"time of all / bound of their sum", last / bound, most, false}, {"slowest / fastest", last / first, unfair, true}}
}

// TestGroupsOfSizes: small exchanges beside a large one that was there before take about as long as they do with more of their own
// size in its place.
func TestGroupsOfSizes(t *testing.T) {
	const small, size, large = 6, 16 << 10, 256 << 10
	overTwoSites(t, func(t *testing.T, w *world, g *quicGrid, _ func() int) []seen {
		p := w.allgather(t, size)
		alone := slices.Max(together(t, g, jobsOf(t, 3, p, small+1)))
		time.Sleep(time.Second)
		one := jobsOf(t, 4, w.allgather(t, large), 1)
		var wg sync.WaitGroup
		wg.Go(func() { together(t, g, one) })
		time.Sleep(time.Second)
		took := together(t, g, jobsOf(t, 5, p, small))
		beside := slices.Max(took)
		wg.Wait()
		return []seen{{"small ones beside a large one / beside one of their own", beside.Seconds() / alone.Seconds(), 1.5, false}} // 1.1 to 1.8, the median of five 1.2 to 1.4
	})
}

// TestDeafGroup: data of an exchange that has not begun where they go to do not hold up another one to the same host.
func TestDeafGroup(t *testing.T) {
	trip, size := 100*time.Millisecond, int64(256<<10)
	rng := rand.New(rand.NewPCG(1, 98))
	cfg := star(2, gridnet.Link{Rate: 10 * gridnet.Mbps, Latency: trip / 2})
	overGridnet(t, cfg, 0, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
		p := chain(2, size)
		g.must(t, newJob(t, rng, p, 0)) // lanes are open
		alone := together(t, g, []*job{newJob(t, rng, p, 0)})[0]
		late := newJob(t, rng, p, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := g.engines[p.Hosts[0]].Run(ctx, late.parts[0], late.data[0]); !errors.Is(err, context.Canceled) {
				t.Errorf("the exchange that nobody takes: %v", err)
			}
		})
		time.Sleep(trip / 2)
		took := together(t, g, []*job{newJob(t, rng, p, 0)})[0]
		cancel()
		wg.Wait()
		t.Logf("alone %v, beside one that has not begun %v", alone, took)
		if most := 2.0; took.Seconds() > most*alone.Seconds() {
			t.Errorf("took %v beside an exchange that has not begun, %v alone, want at most %.1f times as long", took, alone, most)
		}
	}, func(c *Config, _ *lane.Config) {
		c.Lanes = nil
		c.Path = func(string) Path { return Path{RTT: trip, Rate: 1.2e6} }
	})
}
