package min3

import (
	"math"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A grid is the network as the leaf pools of a tree see it.
type grid struct {
	*costs
	pools  [][]int              // hosts, by leaf pool
	poolOf []int                // by host
	pipes  []pipe               // [to*len(pools)+from]; the diagonal is not used
	out    []netmap.BytesPerSec // by leaf pool: its ports out together
	bytes  []int64              // by data index: its size
}

// A pipe is the shared link from one leaf pool to another.
type pipe struct {
	capacity netmap.BytesPerSec // what all transfers get together
	flow     netmap.BytesPerSec // what one gets at most
	slots    int                // transfers that fill it
	rate     netmap.BytesPerSec // what one gets if all slots are taken
	latency  ticks              // the least of its host pairs
}

// full keeps ⌈C/r⌉ from counting one transfer more for noise in the last digits of C/r.
const full = 1 - 1e-6

// newGrid measures the leaf pools as plan.NetworkOf does: the largest capacity of a host
// pair is that of the pipe, and the most that a host gets with another alone that of its ports.
func newGrid(c *costs, leaves []*pools.Pool) *grid {
	p := len(leaves)
	g := &grid{
		costs: c, poolOf: make([]int, c.n), pipes: make([]pipe, p*p),
		out: make([]netmap.BytesPerSec, p), bytes: make([]int64, c.n),
	}
	for slot, d := range c.data {
		g.bytes[d] = c.sizes[slot]
	}
	for k, leaf := range leaves {
		g.pools = append(g.pools, leaf.Hosts)
		for _, h := range leaf.Hosts {
			g.poolOf[h] = k
		}
	}
	for i := range g.pipes {
		g.pipes[i].latency = math.MaxInt64
	}
	egress, ingress := make([]netmap.BytesPerSec, c.n), make([]netmap.BytesPerSec, c.n)
	for from := range c.n {
		for to := range c.n {
			if from == to {
				continue
			}
			flow := c.rate[to*c.n+from]
			all, _ := c.snap.Capacity(from, to)
			if !(all >= flow && all <= math.MaxFloat64) { // also catches NaN
				all = flow
			}
			pair, _ := c.snap.Pair(from, to)
			pair = min(pair, all)
			egress[from], ingress[to] = max(egress[from], pair), max(ingress[to], pair)
			if e := g.pipe(g.poolOf[from], g.poolOf[to]); g.poolOf[from] != g.poolOf[to] {
				e.capacity, e.flow = max(e.capacity, all), max(e.flow, flow)
				e.latency = min(e.latency, c.latency[to*c.n+from])
			}
		}
	}
	in := make([]netmap.BytesPerSec, p)
	for h, k := range g.poolOf {
		g.out[k] += egress[h]
		in[k] += ingress[h]
	}
	for from := range p {
		for to := range p {
			if from != to {
				pairs := len(g.pools[from]) * len(g.pools[to])
				g.pipe(from, to).divide(min(g.out[from], in[to]), pairs, c.n)
			}
		}
	}
	return g
}

func (g *grid) pipe(from, to int) *pipe { return &g.pipes[to*len(g.pools)+from] }

// divide cuts the capacity into slots. The ports at the two ends may hold less than the
// pipe, and pairs of hosts with one flow each may not fill it.
func (e *pipe) divide(ports netmap.BytesPerSec, pairs, blocks int) {
	e.capacity = min(e.capacity, ports, e.flow*netmap.BytesPerSec(pairs))
	e.slots = 1
	if k := math.Ceil(float64(e.capacity) / float64(e.flow) * full); k > 1 {
		e.slots = int(min(k, float64(max(blocks, 2))))
	}
	e.rate = min(e.flow, e.capacity/netmap.BytesPerSec(e.slots))
}
