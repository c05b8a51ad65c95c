package min3

import (
	"cmp"
	"math"
	"slices"
)

// routes say over which pools each block comes to each leaf pool: a tree per block, from
// the pool of its origin. They are chosen before anything is timed, by what they load the
// pipes with: a pipe's share of all blocks bounds the makespan whatever the order.
type routes struct {
	*grid
	parent []int   // [data*pools+pool]: the pool that the block comes from, -1 at its origin
	load   []ticks // by pipe: how long its blocks take at full capacity
	port   []ticks // by pool: how long its hosts send, if all do alike
	path   []ticks // by data: how long its last byte is under way if nothing else is
}

// relayChunks is in how many pieces a block streams through a relay, of which the first
// delays the hop: the engine's default for blocks of 64 KiB to 2 MiB.
const relayChunks = 16

// Limits of the search for routes: of n blocks in P pools a sweep looks at n·P² pipes, each
// time at a way of up to P hops. Few sweeps are needed; beyond some 30 pools the second
// limit cuts the search short, and some blocks keep the way on which they were put.
const (
	maxSweeps = 50
	maxWork   = 1 << 23
)

// newRoutes grows a tree for each block, the largest first, and then moves blocks from
// full pipes to freer ones until no single move helps.
func newRoutes(g *grid) *routes {
	p := len(g.pools)
	r := &routes{
		grid: g, parent: make([]int, g.n*p), load: make([]ticks, p*p), port: make([]ticks, p), path: make([]ticks, g.n),
	}
	if p == 1 {
		r.parent = slices.Repeat([]int{-1}, g.n)
		return r
	}
	// Inside a pool of m hosts each block is sent m-1 times, wherever it enters.
	for k, hosts := range g.pools {
		for _, size := range g.bytes {
			r.port[k] += g.moving(g.out[k], size) * ticks(len(hosts)-1)
		}
	}
	for slot := g.n - 1; slot >= 0; slot-- {
		r.grow(int(g.data[slot]))
	}
	r.improve()
	return r
}

// tree returns the parents of data d by pool.
func (r *routes) tree(d int) []int {
	p := len(r.pools)
	return r.parent[d*p : (d+1)*p]
}

// grow adds pools to the tree of d one by one: always the one that can be reached first,
// where a pipe is free when all that was given to it so far is through.
func (r *routes) grow(d int) {
	tree := r.tree(d)
	end := make([]ticks, len(tree))   // when the pool has d, from tree
	first := make([]ticks, len(tree)) // when it has the first chunk
	in := make([]bool, len(tree))
	for k := range tree {
		tree[k], end[k] = -1, math.MaxInt64
	}
	for to := r.poolOf[d]; ; {
		in[to] = true
		if a := tree[to]; a >= 0 {
			e := r.pipe(a, to)
			first[to] = first[a] + e.latency + r.moving(e.flow, r.bytes[d])/relayChunks
			r.put(d, a, to, 1)
		}
		next := -1
		for k := range tree {
			if in[k] {
				continue
			}
			e := r.pipe(to, k)
			free := r.load[k*len(tree)+to] + r.moving(e.capacity, r.bytes[d])
			t := e.latency + max(free, r.port[to], first[to]+r.moving(e.flow, r.bytes[d]))
			if t < end[k] {
				tree[k], end[k] = to, t
			}
			if next < 0 || end[k] < end[next] {
				next = k
			}
		}
		if next < 0 {
			break
		}
		to = next
	}
	r.path[d] = r.length(d)
}

// put adds the transfer of d from→to to the loads, or takes it away with sign -1.
func (r *routes) put(d, from, to int, sign ticks) {
	r.load[to*len(r.pools)+from] += sign * r.moving(r.pipe(from, to).capacity, r.bytes[d])
	r.port[from] += sign * r.moving(r.out[from], r.bytes[d])
}

// length returns the time of the longest way of d: the slowest of its pipes for all of
// the block, and for each of the others a chunk, and the latencies.
func (r *routes) length(d int) ticks {
	var longest ticks
	for k, parent := range r.tree(d) {
		if parent < 0 {
			continue
		}
		var way, slowest ticks
		for at := k; r.tree(d)[at] >= 0; at = r.tree(d)[at] {
			e := r.pipe(r.tree(d)[at], at)
			one := r.moving(e.flow, r.bytes[d])
			way += e.latency + one/relayChunks
			slowest = max(slowest, one)
		}
		longest = max(longest, way+slowest)
	}
	return longest
}

// below reports whether k is pool or behind it in the tree of d.
func (r *routes) below(d, k, pool int) bool {
	for ; k >= 0; k = r.tree(d)[k] {
		if k == pool {
			return true
		}
	}
	return false
}

// improve lets a block come to a pool from another pool where that makes the worst of the
// times it touches better: pipes, ports, and its own way. The sorted list of all such
// times falls with each move, so it ends.
func (r *routes) improve() {
	work := 0
	for range maxSweeps {
		changed := false
		for slot := r.n - 1; slot >= 0; slot-- {
			d := int(r.data[slot])
			for to := range r.pools {
				if r.tree(d)[to] < 0 {
					continue
				}
				if work += len(r.pools) * len(r.pools); work > maxWork {
					return
				}
				changed = r.moveEntry(d, to) || changed
			}
		}
		if !changed {
			return
		}
	}
}

// moveEntry lets data d come into pool to from the first other pool from which that is better.
func (r *routes) moveEntry(d, to int) bool {
	old := r.tree(d)[to]
	for from := range r.pools {
		if from == old || r.below(d, from, to) {
			continue
		}
		before := r.times(d, old, from, to)
		r.move(d, old, from, to)
		after := r.times(d, old, from, to)
		if slices.Compare(after[:], before[:]) < 0 {
			return true
		}
		r.move(d, from, old, to)
	}
	return false
}

func (r *routes) move(d, old, from, to int) {
	r.put(d, old, to, -1)
	r.put(d, from, to, 1)
	r.tree(d)[to] = from
	r.path[d] = r.length(d)
}

// times returns the times that a move of d into pool to from a to b touches, the worst first.
func (r *routes) times(d, a, b, to int) [5]ticks {
	t := [5]ticks{r.busy(a, to), r.busy(b, to), r.port[a], r.port[b], r.path[d]}
	slices.SortFunc(t[:], func(x, y ticks) int { return cmp.Compare(y, x) })
	return t
}

// busy returns when the pipe from→to has brought its share.
func (r *routes) busy(from, to int) ticks {
	load := r.load[to*len(r.pools)+from]
	if load == 0 {
		return 0
	}
	return load + r.pipe(from, to).latency
}

// tail returns how long after data d is on its way into pool k the last pool behind has it.
func (r *routes) tail(d, k int) ticks {
	e := r.pipe(r.tree(d)[k], k)
	var behind ticks
	for next, parent := range r.tree(d) {
		if parent == k {
			behind = max(behind, r.tail(d, next))
		}
	}
	return e.latency + r.moving(e.rate, r.bytes[d]) + behind
}
