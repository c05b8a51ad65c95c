package exchange

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
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

// TestGroups: exchanges over the same hosts that begin at one instant take about as long as each other, and all of them not
// much longer than one with the bytes of all.
func TestGroups(t *testing.T) {
	if gridtest.Race {
		t.Skip("megabytes: run without the race detector, which multiplies its CPU time by ten")
	}
	const groups, size = 12, 16 << 10
	w := newWorld(t, twoSites)
	p := w.allgather(t, size)
	cfg, err := gridnet.FromGrid(w.file)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := w.net.AllgatherBound(slices.Repeat([]int64{groups * size}, w.snap.N()))
	if err != nil {
		t.Fatal(err)
	}
	site, index := make(map[string]string), make(map[string]int)
	for h := range w.snap.N() {
		site[w.snap.Host(h).Name], index[w.snap.Host(h).Name] = w.snap.Host(h).Site, h
	}
	lost := func(n *gridnet.Network) (lost int) {
		for _, l := range n.Stats().Links {
			lost += int(l.Lost().Packets)
		}
		return lost
	}
	overGridnet(t, cfg, 0, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
		rng := rand.New(rand.NewPCG(1, 96))
		g.must(t, newJob(t, rng, p, 0)) // lanes are open
		time.Sleep(time.Second)
		before := lost(n)
		took, relief := make([]time.Duration, groups), make([]Relief, groups)
		jobs := make([]*job, groups)
		for i := range jobs {
			jobs[i] = newJob(t, rng, p, 0)
		}
		var wg sync.WaitGroup
		for i := range jobs {
			wg.Go(func() {
				for _, s := range g.must(t, jobs[i]) {
					took[i] = max(took[i], s.Elapsed)
					relief[i].add(s.Relief)
				}
			})
		}
		wg.Wait()
		t.Logf("%v, bound %.3f s, %d packets lost; %+v", took, bound.Seconds, lost(n)-before, relief)
		first, last := slices.Min(took), slices.Max(took)
		if most := 1.6; last.Seconds() > most*bound.Seconds {
			t.Errorf("all took %v together, want at most %.2f times the bound of %.2f s", last, most, bound.Seconds)
		}
		if most := 1.8; last.Seconds() > most*first.Seconds() {
			t.Errorf("the slowest took %v and the fastest %v, want at most %.2f times as long", last, first, most)
		}
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
