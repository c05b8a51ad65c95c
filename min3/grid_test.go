package min3

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// snapshot builds a snapshot of n hosts from a function of the ordered pair.
func snapshot(n int, link func(from, to int) netmap.Estimate) *netmap.Snapshot {
	hosts := make([]netmap.Host, n)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		hosts[i].Name = fmt.Sprintf("h%d", i)
		for j := range n {
			if i != j {
				est[i*n+j] = link(i, j)
			}
		}
	}
	return netmap.NewSnapshot(1, hosts, est)
}

// measured returns an estimate with latency and bandwidth.
func measured(latency time.Duration, rate netmap.BytesPerSec) netmap.Estimate {
	return netmap.Estimate{
		Known:     netmap.FieldLatency | netmap.FieldBandwidth,
		Latency:   latency,
		Bandwidth: rate,
	}
}

// paperGrid is the 3-site grid of Tables 1 and 2 with the tree UT | {UK | NTH}.
// The NTH latency of 6 µs is as printed; it is probably a slip for 60 µs.
func paperGrid() (*netmap.Snapshot, *pools.Tree) {
	const us = time.Microsecond
	table := [3][3]netmap.Estimate{
		{measured(60*us, 85.19*netmap.Mbps), measured(50000*us, 1.44*netmap.Mbps), measured(50000*us, 1.25*netmap.Mbps)},
		{measured(50000*us, 1.28*netmap.Mbps), measured(60*us, 289.33*netmap.Mbps), measured(76000*us, 4.75*netmap.Mbps)},
		{measured(50000*us, 1.16*netmap.Mbps), measured(76000*us, 4.75*netmap.Mbps), measured(6*us, 81.86*netmap.Mbps)},
	}
	site := func(h int) int {
		switch {
		case h < 8:
			return 0
		case h < 12:
			return 1
		}
		return 2
	}
	s := snapshot(20, func(i, j int) netmap.Estimate { return table[site(i)][site(j)] })
	ut, uk, nth := leaf(0, 8), leaf(8, 12), leaf(12, 20)
	return s, &pools.Tree{Root: join(ut, join(uk, nth))}
}

// leaf returns the pool of the hosts lo … hi−1.
func leaf(lo, hi int) *pools.Pool {
	p := &pools.Pool{}
	for h := lo; h < hi; h++ {
		p.Hosts = append(p.Hosts, h)
	}
	return p
}

// join returns the pool that holds the children.
func join(children ...*pools.Pool) *pools.Pool {
	p := &pools.Pool{Children: children}
	for _, c := range children {
		p.Hosts = append(p.Hosts, c.Hosts...)
	}
	slices.Sort(p.Hosts)
	return p
}

// randomTree divides hosts at random, up to three levels deep.
func randomTree(rng *rand.Rand, hosts []int, depth int) *pools.Pool {
	p := &pools.Pool{Hosts: slices.Sorted(slices.Values(hosts))}
	if depth == 0 || len(hosts) == 1 || rng.IntN(4) == 0 {
		return p
	}
	k := 2 + rng.IntN(min(len(hosts), 5)-1)
	parts := make([][]int, k)
	for i, h := range rng.Perm(len(hosts)) {
		part := i // the first k hosts make every part non-empty
		if i >= k {
			part = rng.IntN(k)
		}
		parts[part] = append(parts[part], hosts[h])
	}
	for _, part := range parts {
		p.Children = append(p.Children, randomTree(rng, part, depth-1))
	}
	return p
}

// models are both host models, for tests that run over them.
var models = []plan.Duplex{Full, Half}

// A scenario is one random input to Schedule.
type scenario struct {
	s     *netmap.Snapshot
	tree  *pools.Tree
	sizes []int64
	opt   Options
}

// randomScenario draws a grid of up to most hosts. It is made to tie: bandwidths,
// latencies and sizes come from short lists as often as from a wide range, and
// some links are so fast that different sizes take equal ticks, or none.
func randomScenario(rng *rand.Rand, most int) scenario {
	n := 1 + rng.IntN(most)
	rates := []netmap.BytesPerSec{netmap.Mbps, 2 * netmap.Mbps, 80 * netmap.Mbps}
	latencies := []time.Duration{0, time.Millisecond}
	wide, fast, logp := rng.IntN(3) == 0, rng.IntN(4) == 0, rng.IntN(2) == 0
	uniform := measured(latencies[rng.IntN(2)], rates[rng.IntN(3)])
	same := rng.IntN(4) == 0
	s := snapshot(n, func(int, int) netmap.Estimate {
		e := measured(latencies[rng.IntN(2)], rates[rng.IntN(3)])
		if same {
			e = uniform
		}
		if wide {
			e = measured(time.Duration(rng.IntN(1e8)), netmap.BytesPerSec(1e4+rng.Float64()*1e8))
		}
		if fast && rng.IntN(2) == 0 {
			e.Bandwidth = 1e16
		}
		if logp {
			e.Known |= netmap.FieldGap | netmap.FieldSendOverhead
			e.Gap = time.Duration(rng.IntN(4)) * 10 * time.Millisecond
			e.SendOverhead = time.Duration(rng.IntN(3)) * 5 * time.Millisecond
		}
		return e
	})
	hosts := make([]int, n)
	for i := range hosts {
		hosts[i] = i
	}
	sizes := []int64{int64(rng.IntN(3)) * 50000}
	if rng.IntN(2) == 0 {
		sizes = make([]int64, n)
		for i := range sizes {
			switch rng.IntN(3) {
			case 0:
				sizes[i] = int64(rng.IntN(4)) * 1000
			case 1:
				sizes[i] = 65536 + int64(rng.IntN(10))
			case 2:
				sizes[i] = int64(rng.IntN(1 << 20))
			}
		}
	}
	return scenario{
		s:     s,
		tree:  &pools.Tree{Root: randomTree(rng, hosts, rng.IntN(4))},
		sizes: sizes,
		opt:   Options{Duplex: models[rng.IntN(2)]},
	}
}
