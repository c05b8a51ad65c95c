package ring

import "slices"

// choose picks for subtrees that offer several arrays one array each, such that these and
// the fixed pieces can be joined, or reports that nothing can be. offers[i] is what
// subtree i offers, and the i-th number returned is an index into it.
//
// It is a dynamic program over the subtrees. What was picked so far matters in two ways:
//
//   - For every height h above slack/2 there is a surplus: the ends that suit an end at h,
//     which are at most slack−h high, less the ends at h or above. The ends can
//     be paired if and only if no surplus is below 0 after all picks.
//   - Where a surplus is 0 then, the ends that it counts meet each other and no others (see
//     [join]). Whether one cycle is possible depends on the kinds of pieces that
//     lead across these lines, not on their number.
//
// So a state is a vector of surpluses and a set of kinds. Surpluses are capped where no
// later pick can bring them down to 0, and a state is dropped if another one with
// the same kinds has no smaller surplus: it has the same lines or fewer.
//
// The number of states can grow exponentially with slack/2 and the number of kinds; the
// paper suspects that the problem is NP-complete (§3.2). In practice there is hardly
// anything to choose: up to slack 2 never, and of 580,000 switches in random trees full
// of long bare branches 400 offered two arrays and 20 three.
func choose(fixed []piece, offers [][]piece, slack int) ([]int, bool) {
	c := newChooser(fixed, offers, slack)
	// Without kinds there are far fewer states. If none is left the answer is no, and
	// where no surplus is 0 any of them will do.
	rough := c.search(0)
	if chosen, ok := c.joined(rough, fixed); ok || len(rough) == 0 {
		return chosen, ok
	}
	return c.joined(c.search(len(c.kind)), fixed)
}

// search returns the states after all picks; kinds is 0 or the number of kinds to tell apart.
func (c *chooser) search(kinds int) []*state {
	layer := []*state{{surplus: c.start, kinds: make([]byte, kinds)}}
	for i := range c.offers {
		layer = c.extend(layer, i)
	}
	return layer
}

// joined returns the picks of the first of the final states whose pieces can be joined.
func (c *chooser) joined(final []*state, fixed []piece) ([]int, bool) {
	pieces := slices.Grow(slices.Clone(fixed), len(c.offers))
	chosen := make([]int, len(c.offers))
	for _, s := range final {
		pieces = pieces[:len(fixed)]
		for i := range slices.Backward(chosen) {
			chosen[i] = s.chosen
			s = s.before
		}
		for i, k := range chosen {
			pieces = append(pieces, c.offers[i][k])
		}
		if _, ok := join(pieces, c.slack); ok {
			return chosen, true
		}
	}
	return nil, false
}

// A state is what picks for the first subtrees amount to.
type state struct {
	surplus []int  // per level
	kinds   []byte // per kind of piece: 1 where one was picked; empty: not told apart
	chosen  int    // of the offers of the last of these subtrees
	before  *state
}

// A chooser holds what the picks can do to a state. Level l stands for height slack−l.
type chooser struct {
	slack  int
	start  []int // per level: surplus of the fixed pieces
	offers [][]piece
	kind   map[piece]int
	least  [][]int // [i][level]: what subtrees i and up add at least
	most   [][]int // and at most
}

func newChooser(fixed []piece, offers [][]piece, slack int) *chooser {
	levels := (slack + 1) / 2 // heights slack … slack/2+1
	c := &chooser{slack: slack, start: make([]int, levels), offers: offers, kind: make(map[piece]int)}
	for l := range levels {
		for _, p := range fixed {
			c.start[l] += c.gain(p, l)
		}
	}
	c.least, c.most = make([][]int, len(offers)+1), make([][]int, len(offers)+1)
	c.least[len(offers)], c.most[len(offers)] = make([]int, levels), make([]int, levels)
	for i := len(offers) - 1; i >= 0; i-- {
		c.least[i], c.most[i] = slices.Clone(c.least[i+1]), slices.Clone(c.most[i+1])
		for _, p := range offers[i] {
			if _, ok := c.kind[p]; !ok {
				c.kind[p] = len(c.kind)
			}
		}
		for l := range levels {
			low, high := 2, -2
			for _, p := range offers[i] {
				low, high = min(low, c.gain(p, l)), max(high, c.gain(p, l))
			}
			c.least[i][l] += low
			c.most[i][l] += high
		}
	}
	return c
}

// gain is what p adds to the surplus of level l: its ends that suit a height of
// slack−l, less those that are as high.
func (c *chooser) gain(p piece, l int) (n int) {
	for _, h := range [2]int{p.a, p.b} {
		if h <= l {
			n++
		}
		if h >= c.slack-l {
			n--
		}
	}
	return n
}

// extend returns the states that follow those of layer with a pick for subtree i.
func (c *chooser) extend(layer []*state, i int) []*state {
	var order []string // of the map's keys, as they come up
	front := make(map[string][]*state)
	for _, s := range layer {
	offers:
		for k, p := range c.offers[i] {
			surplus := make([]int, len(s.surplus))
			for l, v := range s.surplus {
				v += c.gain(p, l)
				if v+c.most[i+1][l] < 0 {
					continue offers
				}
				surplus[l] = min(v, 1-c.least[i+1][l])
			}
			kinds := slices.Clone(s.kinds)
			if len(kinds) > 0 {
				kinds[c.kind[p]] = 1
			}
			rivals, ok := front[string(kinds)]
			if !ok {
				order = append(order, string(kinds))
			}
			if slices.ContainsFunc(rivals, func(r *state) bool { return reaches(r.surplus, surplus) }) {
				continue
			}
			rivals = slices.DeleteFunc(rivals, func(r *state) bool { return reaches(surplus, r.surplus) })
			front[string(kinds)] = append(rivals, &state{surplus, kinds, k, s})
		}
	}
	var next []*state
	for _, kinds := range order {
		next = append(next, front[kinds]...)
	}
	return next
}

// reaches reports whether x is nowhere below y.
func reaches(x, y []int) bool {
	for l := range x {
		if x[l] < y[l] {
			return false
		}
	}
	return true
}
