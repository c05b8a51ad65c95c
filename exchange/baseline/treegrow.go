package baseline

import (
	"cmp"
	"slices"
	"time"

	"github.com/gridagent/gridagent/pools"
)

// A broadcastTree holds the children of each host: kids[first[h]:first[h+1]], ascending.
type broadcastTree struct{ first, kids []int32 }

// newBroadcastTree turns the parent of each host, −1 at the root, into lists of children.
func newBroadcastTree(parent []int32) broadcastTree {
	n := len(parent)
	t := broadcastTree{first: make([]int32, n+1), kids: make([]int32, n-1)}
	for _, p := range parent {
		if p >= 0 {
			t.first[p+1]++
		}
	}
	for h := range n {
		t.first[h+1] += t.first[h]
	}
	next := slices.Clone(t.first)
	for h, p := range parent {
		if p >= 0 {
			t.kids[next[p]] = int32(h)
			next[p]++
		}
	}
	return t
}

// children returns the hosts that h sends the block to.
func (t broadcastTree) children(h int32) []int32 { return t.kids[t.first[h]:t.first[h+1]] }

// A grower makes one broadcast tree after another, each on an idle network.
type grower struct {
	m      *hostModel
	size   int64           // of the block, which the next two are for
	cost   []time.Duration // [from*n+to], equation 1
	near   [][]int32       // [from], the other hosts by cost, then index
	parent []int32         // of the tree that is being made
	// ready is, by host that has the block, when it may send next.
	ready []time.Duration
	// part is, by host of the pool that is being spanned, the index of its sub-pool; −1 outside.
	part []int32
}

// growTrees fills trees, by origin, over the pool tree below root.
func growTrees(trees []broadcastTree, m *hostModel, root *pools.Pool) {
	g := &grower{
		m: m, size: -1,
		cost:   make([]time.Duration, m.n*m.n),
		near:   make([][]int32, m.n),
		parent: make([]int32, m.n),
		ready:  make([]time.Duration, m.n),
		part:   slices.Repeat([]int32{-1}, m.n),
	}
	order := make([]int, m.n) // by size, so that equal sizes share cost and near
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.sizes[a], m.sizes[b]) })
	for _, origin := range order {
		g.price(m.sizes[origin])
		g.parent[origin], g.ready[origin] = -1, 0
		g.span(root, origin)
		trees[origin] = newBroadcastTree(g.parent)
	}
}

// price fills cost and near for blocks of size bytes.
func (g *grower) price(size int64) {
	if size == g.size {
		return
	}
	g.size = size
	n := g.m.n
	for from := range n {
		near := g.near[from][:0]
		for to := range n {
			if to != from {
				g.cost[from*n+to] = g.m.transfer(from, to, size)
				near = append(near, int32(to))
			}
		}
		row := g.cost[from*n : (from+1)*n]
		slices.SortStableFunc(near, func(a, b int32) int { return cmp.Compare(row[a], row[b]) })
		g.near[from] = near
	}
}

// span brings the block from holder, in p, into every sub-pool of p once, and then to all
// their hosts. Of all sends from a host that has the block into a sub-pool that lacks it, the
// one that arrives first is next; ties go to the lower source, then destination. For
// single hosts as sub-pools that is Dijkstra's algorithm, in which a host that sends is busy
// for the send overhead.
func (g *grower) span(p *pools.Pool, holder int) {
	subs := subPools(p)
	for k, sub := range subs {
		for _, h := range sub.Hosts {
			g.part[h] = int32(k)
		}
	}
	entry := slices.Repeat([]int{-1}, len(subs))
	entry[g.part[holder]] = holder
	sources := []int{holder}
	skip := make([]int, 1, len(subs)) // by source, how much of near is reached or outside
	for len(sources) < len(subs) {
		best, from, to := never, -1, -1
		for i, u := range sources {
			v := g.nearest(u, &skip[i], entry)
			if t := g.ready[u] + g.cost[u*g.m.n+v]; t < best || t == best && u < from {
				best, from, to = t, u, v
			}
		}
		g.parent[to] = int32(from)
		// Capped, so that absurd overheads cannot overflow; minOrder refuses such a schedule.
		g.ready[from] = min(g.ready[from]+g.m.snap.SendOverhead(from, to, g.size), maxTime)
		g.ready[to] = min(best, maxTime)
		entry[g.part[to]] = to
		sources, skip = append(sources, to), append(skip, 0)
	}
	for _, h := range p.Hosts {
		g.part[h] = -1
	}
	for k, sub := range subs {
		if len(sub.Hosts) > 1 {
			g.span(sub, entry[k])
		}
	}
}

// nearest returns the host nearest to u in a sub-pool that has no entry yet; one is left. It
// moves skip past the hosts that never count again.
func (g *grower) nearest(u int, skip *int, entry []int) int {
	for {
		v := g.near[u][*skip]
		if k := g.part[v]; k >= 0 && entry[k] < 0 {
			return int(v)
		}
		*skip++
	}
}
