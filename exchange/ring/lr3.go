package ring

import (
	"slices"
	"sort"

	"github.com/gridagent/gridagent/exchange/plan"
)

// LR3 returns a ring without contention whose maximum path length is the least there is
// (Problem 2 of §3.2), and that length. The ring begins with rank 0.
//
// In a ring without contention the hosts of every subtree stand side by side (Lemma 2),
// so it is composed from the leaves up, as in Algorithm 3 (§4.2.2). All that the rest of
// the ring sees of a subtree are the heights of the two ends of its array. Three things
// differ from the paper:
//
//   - The paper's table holds the least maximum path length for every pair of heights.
//     Here the length is given, and tried upwards until there is a ring; then a
//     subtree keeps only the lowest pairs that are possible. Mostly that is one.
//   - The paper tries every sequence of what hangs below a switch. [join] finds one.
//   - The ring comes with its length: from the root down, what was found possible is
//     joined again, now with the ends that were chosen for it.
//
// W switches with k neighbours each and arrays that end at H different heights take
// O(W·H·k·log k) for one length, unless a switch has two subtrees or more that offer
// several pairs each: then see [choose]. The paper's bound is O(|V|·n^(k+1)·H⁴), n being
// the ports of a switch.
func LR3(t *plan.Topology) (order []int, path int) {
	k := newTree(t).trim()
	root := slices.Index(k.gone, false)
	r := k.hang(root)
	var c *composer
	possible := func(d int) bool {
		c = &composer{rooted: r, slack: d - 1, offers: make([][]piece, len(r.hosts))}
		return c.compose()
	}
	// Upwards in growing strides: on most trees the answer is 2 or 3, but where hosts
	// are few it can be the number of switches.
	low, high := 1, 1
	for !possible(high) {
		low, high = high+1, high+1+(high-1)/2
	}
	best := low + sort.Search(high-low, func(i int) bool { return possible(low + i) })
	if c.slack != best-1 {
		possible(best)
	}
	order = fromRankZero(c.ring())
	path, _ = Measure(t, order) // best, but 0 where there is one host
	return order, path
}

// A composer decides whether there is a ring whose messages pass at most slack+1 switches.
type composer struct {
	*rooted
	slack  int
	offers [][]piece // per switch: what the array of its subtree can be, lowest pairs only
}

// compose fills in the offers from the leaves up and reports whether there is a ring.
func (c *composer) compose() bool {
	root := c.preorder[0]
	for _, s := range slices.Backward(c.preorder[1:]) {
		if c.offers[s] = c.arrays(s); len(c.offers[s]) == 0 {
			return false
		}
	}
	if len(c.children[root]) == 0 {
		return true // all hosts on one switch: any order is a ring, one host included
	}
	_, _, ok := c.arrange(root, nil)
	return ok
}

// arrays returns the lowest pairs of ends that the array of the subtree of s can have, by
// rising first end. Ends above slack, which nothing could meet, are left out.
func (c *composer) arrays(s int) []piece {
	var heights []int // at which an array can end, below s
	if len(c.hosts[s]) > 0 {
		heights = append(heights, 0)
	}
	for _, child := range c.children[s] {
		for _, p := range c.offers[child] {
			heights = append(heights, p.a, p.b)
		}
	}
	slices.Sort(heights)
	heights = slices.Compact(heights)
	var found []piece
	j := len(heights) - 1
	for j >= 0 && heights[j] >= c.slack {
		j--
	}
	// What is possible stays so with higher ends. So as i rises the least j for it
	// falls, and pairs above it need no second look.
	for i := 0; i <= j; i++ {
		n := len(found)
		for j >= i {
			if _, _, ok := c.arrange(s, &piece{heights[i], heights[j]}); !ok {
				break
			}
			found = append(found[:n], piece{heights[i] + 1, heights[j] + 1})
			j--
		}
	}
	return found
}

// arrange joins what hangs below s to a ring, or where ends are given to an array whose
// ends, as seen from s, are no higher than those. The pieces are the arrays of the
// children, the hosts, and for an array one more that stands for the rest of the world:
// a ring closes over an end that is slack−h high if and only if what meets it ends at h or below.
func (c *composer) arrange(s int, ends *piece) (pieces []piece, j *joiner, ok bool) {
	children := c.children[s]
	pieces = make([]piece, len(children)+len(c.hosts[s]), len(children)+len(c.hosts[s])+1)
	if ends != nil {
		pieces = append(pieces, piece{c.slack - ends.a, c.slack - ends.b})
	}
	fixed := slices.Clone(pieces[len(children):])
	var offers [][]piece
	for i, child := range children {
		if o := c.offers[child]; len(o) == 1 {
			pieces[i] = o[0]
			fixed = append(fixed, o[0])
		} else {
			offers = append(offers, o)
		}
	}
	if len(offers) > 0 {
		chosen, ok := choose(fixed, offers, c.slack)
		if !ok {
			return nil, nil, false
		}
		for i, child := range children {
			if o := c.offers[child]; len(o) > 1 {
				pieces[i] = o[chosen[0]]
				chosen = chosen[1:]
			}
		}
	}
	j, ok = join(pieces, c.slack)
	return pieces, j, ok
}

// ring returns the ring that compose found possible.
func (c *composer) ring() []int {
	root := c.preorder[0]
	order := make([]int, 0, len(c.Hosts()))
	if len(c.children[root]) == 0 {
		return append(order, c.hosts[root]...)
	}
	pieces, j, _ := c.arrange(root, nil)
	last := 2*len(pieces) - 1 // any end of any piece: a ring has no beginning
	order = c.expand(order, root, pieces, j.walk(last))
	return c.expand(order, root, pieces, []step{{piece: last / 2}})
}

// expand appends the hosts of the pieces below s in the order of steps.
func (c *composer) expand(order []int, s int, pieces []piece, steps []step) []int {
	children := c.children[s]
	for _, st := range steps {
		if st.piece >= len(children) {
			order = append(order, c.hosts[s][st.piece-len(children)])
			continue
		}
		child, ends := children[st.piece], pieces[st.piece]
		below, j, _ := c.arrange(child, &piece{ends.a - 1, ends.b - 1})
		outside := 2 * (len(below) - 1) // its end a is what the array's end a meets
		if st.turned {
			outside++
		}
		order = c.expand(order, child, below, j.walk(outside))
	}
	return order
}
