package min3

import (
	"cmp"
	"slices"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// allgatherShared schedules with shared links: between the leaf pools first, then inside
// each of them in what time the ports have left. Wide-area transfers go first because
// their links bound the whole; the blocks that they bring are spread as they arrive.
func allgatherShared(st *state, tree *pools.Tree) error {
	leaves := leafPools(tree)
	if err := newWideArea(st, newRoutes(newGrid(st.costs, leaves))).run(); err != nil {
		return err
	}
	st.yieldToWide()
	even := st.evened(leaves)
	for _, p := range leaves {
		if err := newLevel(even, p, 1).run(); err != nil {
			return err
		}
	}
	return st.replay(even.steps[len(st.steps):])
}

// leafPools returns the leaves of tree by their lowest host.
func leafPools(tree *pools.Tree) []*pools.Pool {
	var leaves []*pools.Pool
	tree.Walk(func(p *pools.Pool, _ int) bool {
		if p.Leaf() {
			leaves = append(leaves, p)
		}
		return true
	})
	slices.SortFunc(leaves, func(a, b *pools.Pool) int { return a.Hosts[0] - b.Hosts[0] })
	return leaves
}

// likeRates is the share of its fastest link that the slowest link of a pool must reach to
// be taken for equal.
const likeRates = 2. / 3

// evened returns a copy of st in which the links inside a leaf pool are equal, if they
// are nearly so: at the rate of its slowest and the latency of its longest.
//
// The greedy takes the fastest link of a host each time, by however little, and some
// hosts would send several times as much as others. With equal links it decides by what
// they have sent.
func (st *state) evened(leaves []*pools.Pool) *state {
	c := *st.costs
	c.latency, c.rate = slices.Clone(c.latency), slices.Clone(c.rate)
	for _, p := range leaves {
		c.even(p.Hosts)
	}
	if c.uniform != nil {
		c.fillUniform()
	}
	even := *st
	even.costs = &c
	even.send = make([]ticks, st.n)
	even.recv = even.send
	if !st.half() {
		even.recv = make([]ticks, st.n)
	}
	even.link, even.have = slices.Clone(st.link), slices.Clone(st.have)
	even.arrival, even.via = slices.Clone(st.arrival), slices.Clone(st.via)
	even.sent, even.steps = slices.Clone(st.sent), slices.Clone(st.steps)
	return &even
}

func (c *costs) even(hosts []int) {
	var slowest, fastest netmap.BytesPerSec
	var longest ticks
	for _, a := range hosts {
		for _, b := range hosts {
			if a == b {
				continue
			}
			r := c.rate[b*c.n+a]
			if slowest == 0 || r < slowest {
				slowest = r
			}
			fastest = max(fastest, r)
			longest = max(longest, c.latency[b*c.n+a])
		}
	}
	if slowest < fastest*likeRates {
		return
	}
	for _, a := range hosts {
		for _, b := range hosts {
			if a != b {
				c.rate[b*c.n+a], c.latency[b*c.n+a] = slowest, longest
			}
		}
	}
}

// replay schedules steps again, in their order of time, at what the links really are.
func (st *state) replay(steps []step) error {
	slot := make([]int, st.n) // data index -> slot
	for s, d := range st.data {
		slot[d] = s
	}
	for _, k := range planOrder(steps) {
		s := &steps[k]
		if err := st.schedule(int(s.src), int(s.dst), slot[s.data], int(s.depth)); err != nil {
			return err
		}
	}
	return nil
}

// half reports whether the hosts of st send and receive through one port.
func (st *state) half() bool { return &st.send[0] == &st.recv[0] }

// wideTimes are the times at which wide-area transfers hold the ports, ascending by host.
// They are the same lists in half duplex.
type wideTimes struct{ send, recv [][]stretch }

// A stretch of time, from its start to just before its end.
type stretch struct{ start, end ticks }

// yieldToWide turns the availability of ports that the steps so far have moved back to 0,
// and notes the steps as times to keep clear of.
func (st *state) yieldToWide() {
	w := &wideTimes{send: make([][]stretch, st.n)}
	w.recv = w.send
	if !st.half() {
		w.recv = make([][]stretch, st.n)
	}
	slot := make([]int, st.n)
	for s, d := range st.data {
		slot[d] = s
	}
	for _, s := range st.steps {
		from, to := int(s.src), int(s.dst)
		// Without overhead it is empty, but in half duplex a receive must not lie across it.
		w.send[from] = append(w.send[from], stretch{s.start, s.start + st.overhead(from, to, slot[s.data])})
		w.recv[to] = append(w.recv[to], stretch{s.start, s.end})
		st.sent[from] += st.sizes[slot[s.data]]
	}
	for h := range st.n {
		for _, list := range [][]stretch{w.send[h], w.recv[h]} {
			slices.SortFunc(list, func(a, b stretch) int {
				return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
			})
		}
	}
	st.wide = w
	clear(st.send)
	clear(st.recv)
}

// fit returns the first time from at on at which slot from→to clears the wide-area
// transfers that use its ports. It never falls as at or the size of the block grows, so
// that an offer of a [level] stays a lower bound.
func (st *state) fit(at ticks, from, to, slot int) ticks {
	sending, lasting := st.overhead(from, to, slot), st.transfer(from, to, slot)
	for {
		t := clearOf(st.wide.recv[to], clearOf(st.wide.send[from], at, sending), lasting)
		if t == at {
			return t
		}
		at = t
	}
}

// clearOf returns the first time from at on at which list leaves room for d.
func clearOf(list []stretch, at, d ticks) ticks {
	// Stretches do not overlap, so their ends ascend too. A search by hand: this is where a
	// schedule of many hosts spends most of its time.
	i, end := 0, len(list)
	for i < end {
		if mid := (i + end) / 2; list[mid].end <= at {
			i = mid + 1
		} else {
			end = mid
		}
	}
	for ; i < len(list) && list[i].start < at+d; i++ {
		at = max(at, list[i].end)
	}
	return at
}
