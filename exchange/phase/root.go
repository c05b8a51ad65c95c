package phase

import (
	"cmp"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A census counts machines on either side of every link. It hangs the tree from switch 0.
type census struct {
	t      *plan.Topology
	parent []int   // per switch; -1 at switch 0
	below  []int   // per switch: machines on it and on the switches below it
	hosts  [][]int // per switch: the machines on it, in rank order
}

func newCensus(t *plan.Topology) *census {
	n := len(t.Switches())
	c := &census{t: t, parent: make([]int, n), below: make([]int, n), hosts: make([][]int, n)}
	for h := range t.Hosts() {
		s := t.Home(h)
		c.hosts[s] = append(c.hosts[s], h)
	}
	order := make([]int, 1, n)
	c.parent[0] = -1
	for i := 0; i < len(order); i++ {
		s := order[i]
		for _, next := range t.Adjacent(s) {
			if next != c.parent[s] {
				c.parent[next] = s
				order = append(order, next)
			}
		}
	}
	for _, s := range slices.Backward(order) {
		c.below[s] += len(c.hosts[s])
		if up := c.parent[s]; up >= 0 {
			c.below[up] += c.below[s]
		}
	}
	return c
}

// total is |M|.
func (c *census) total() int { return len(c.t.Hosts()) }

// side returns |M_u| for link (u, v): the machines on the side of switch u. v is a
// switch that u is cabled to.
func (c *census) side(u, v int) int {
	if c.parent[u] == v {
		return c.below[u]
	}
	return c.total() - c.below[v]
}

// holds reports whether machine h is on the side of u of link (u, v).
func (c *census) holds(u, v, h int) bool {
	low := u
	if c.parent[u] != v {
		low = v
	}
	s := c.t.Home(h)
	for s != low && s >= 0 {
		s = c.parent[s]
	}
	return (s == low) == (low == u)
}

// bottleneck returns a switch u, the switch v at the other end of a bottleneck link with
// |M_u| ≥ |M_v| (-1 where v is a machine), and the link's load. Of two equal sides, u's
// is the one without rank 0: the paper leaves it open, and its conference version takes
// it so. There must be a machine; of one alone the load is 0.
func (c *census) bottleneck() (u, v, load int) {
	m := c.total()
	// Every machine's own link carries m−1 each way; rank 0 stands for all of them.
	u, v, load = c.t.Home(0), -1, m-1
	for s, up := range c.parent {
		if up < 0 {
			continue
		}
		if l := c.below[s] * (m - c.below[s]); l > load {
			u, v, load = s, up, l
		}
	}
	if v < 0 {
		return u, v, load
	}
	if near, far := c.side(u, v), c.side(v, u); near < far || near == far && c.holds(u, v, 0) {
		u, v = v, u
	}
	return u, v, load
}

// root identifies the root (§4.1): it starts at one end of a bottleneck link and walks
// away from it until more than one branch ahead has machines.
//
// Where it starts does not matter. Lemma 1 says that no subtree of the result has more
// than half of the machines. Two such switches with three branches or more can only
// face each other over a link that halves the machines, and then the rule of
// [census.bottleneck] says which.
func (c *census) root() int {
	u, v, _ := c.bottleneck()
	leaving := 0 // machines of u that lie behind us: rank 0, where its own link is the start
	if v < 0 {
		leaving = 1
	}
	for {
		branches := len(c.hosts[u]) - leaving
		ahead := -1
		for _, s := range c.t.Adjacent(u) {
			if s != v && c.side(s, u) > 0 {
				branches++
				ahead = s
			}
		}
		// With one or two machines there is no second branch to be found, and the
		// last switch before a machine has to do.
		if branches != 1 || ahead < 0 {
			return u
		}
		u, v, leaving = ahead, u, 0
	}
}

// A view is the two-level view of a system (§4.1, figure 2): a root and its subtrees.
type view struct {
	root  int     // a switch
	trees [][]int // T_0, T_1, …: machines in rank order; no smaller one before a larger

	prefix []int // prefix[i] = |M_0| + … + |M_{i−1}|
	phases int   // |M_0|·(|M|−|M_0|)
}

// newView finds the root of t and sorts its subtrees by size, equal ones by their lowest
// rank. Branches without machines send and receive nothing and are left out: a T_i of
// size 0 has no place in the arithmetic modulo |M_i|.
func newView(t *plan.Topology) *view {
	c := newCensus(t)
	v := &view{root: c.root()}
	for _, h := range c.hosts[v.root] {
		v.trees = append(v.trees, []int{h})
	}
	for _, s := range t.Adjacent(v.root) {
		if tree := c.collect(s, v.root); len(tree) > 0 {
			v.trees = append(v.trees, tree)
		}
	}
	slices.SortFunc(v.trees, func(a, b []int) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a[0], b[0]))
	})
	v.prefix = make([]int, 1, len(v.trees)+1)
	for i, tree := range v.trees {
		v.prefix = append(v.prefix, v.prefix[i]+len(tree))
	}
	v.phases = v.size(0) * (c.total() - v.size(0))
	return v
}

// collect returns the machines on the side of s of link (s, from), in rank order.
func (c *census) collect(s, from int) []int {
	var tree []int
	type step struct{ at, from int }
	for queue := []step{{s, from}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		tree = append(tree, c.hosts[at.at]...)
		for _, next := range c.t.Adjacent(at.at) {
			if next != at.from {
				queue = append(queue, step{next, at.at})
			}
		}
	}
	slices.Sort(tree)
	return tree
}

// size is |M_i|.
func (v *view) size(i int) int { return len(v.trees[i]) }

// Load returns the load of AAPC on t, in messages: how many cross the most loaded
// directed link, |M_u|·|M_v| where the link splits the machines into M_u and M_v
// (§3). No schedule without contention has fewer phases. It is 0 for one machine.
func Load(t *plan.Topology) int {
	_, _, load := newCensus(t).bottleneck()
	return load
}

// An Analysis says how [Schedule] sees a topology.
type Analysis struct {
	Root     int     // index in [plan.Topology.Switches]
	Subtrees [][]int // ranks of the machines in T_0, T_1, …, the largest first; those without machines left out
	Phases   int     // |M_0|·(|M|−|M_0|), which is [Load]
}

// Analyze returns root, subtrees and number of phases of the schedule of t.
func Analyze(t *plan.Topology) Analysis {
	v := newView(t)
	return Analysis{Root: v.root, Subtrees: v.trees, Phases: v.phases}
}
