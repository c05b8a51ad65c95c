package min3

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Schedule returns the Min³ allgather plan of the hosts of s over tree (Figure 7).
//
// sizes holds the bytes that each host contributes, or one size for all. A block of
// 0 bytes is scheduled like any other and costs the latency. tree must pass
// [pools.Tree.Check] for the hosts of s, and every ordered pair of hosts must be measured.
//
// Each transfer of the plan carries one block and comes after the transfer that
// brought the block to its source. Transfers are in order of start; those of one start are in the
// order in which the algorithm committed the ports of any one host. Start, End
// and Makespan are seconds by equations 1-3; Bound is left 0 for the caller.
//
// The error wraps [netmap.ErrNotMeasured] if a latency or bandwidth is missing;
// other errors name the host, link, pool or size that is out of range.
func Schedule(s *netmap.Snapshot, tree *pools.Tree, sizes []int64, opt Options) (*plan.Plan, error) {
	duplex, err := opt.duplex()
	if err != nil {
		return nil, fmt.Errorf("min3: %w", err)
	}
	if opt.Links > Shared {
		return nil, fmt.Errorf("min3: link model %d: want separate or shared links", opt.Links)
	}
	if s == nil || s.N() == 0 {
		return nil, errors.New("min3: snapshot holds no hosts")
	}
	n := s.N()
	sizes, err = perHost(sizes, n)
	if err != nil {
		return nil, fmt.Errorf("min3: %w", err)
	}
	if err := checkTree(tree, s); err != nil {
		return nil, fmt.Errorf("min3: %w", err)
	}
	c, err := newCosts(s, sizes)
	if err != nil {
		return nil, fmt.Errorf("min3: %w", err)
	}
	st := newState(c, duplex)
	if opt.Links == Shared {
		err = allgatherShared(st, tree)
	} else {
		err = allgather(st, tree.Root, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("min3: %w", err)
	}
	return newPlan(s, sizes, c.clock, st.steps), nil
}

// perHost returns one size for each of n hosts.
func perHost(sizes []int64, n int) ([]int64, error) {
	switch len(sizes) {
	case n:
		return sizes, nil
	case 1:
		return slices.Repeat(sizes, n), nil
	}
	return nil, fmt.Errorf("%d block sizes for %d hosts: want one, or one for each", len(sizes), n)
}

// allgather schedules p and then its sub-pools (Figure 7). Sub-pools share no host
// and so no port and no link: the order in which they are visited changes no time.
func allgather(st *state, p *pools.Pool, depth int) error {
	if err := newLevel(st, p, depth).run(); err != nil {
		return err
	}
	for _, sub := range children(p) {
		if err := allgather(st, sub, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// newPlan turns steps into a plan.
func newPlan(s *netmap.Snapshot, sizes []int64, clk clock, steps []step) *plan.Plan {
	p := &plan.Plan{
		Collective: plan.Allgather,
		Algorithm:  "min3",
		Hosts:      s.Names(),
		Transfers:  make([]plan.Transfer, len(steps)),
	}
	if slices.Min(sizes) == slices.Max(sizes) {
		p.MessageBytes = sizes[0]
	} else {
		p.Sizes = slices.Clone(sizes)
	}

	order := planOrder(steps)
	id := make([]int, len(steps)) // step -> transfer
	for i, k := range order {
		id[k] = i
	}
	// One backing array each; at 256 hosts there are 65,280 transfers.
	blocks := make([]plan.Block, len(steps))
	after := make([]int, len(steps))
	var last ticks
	for i, k := range order {
		st := &steps[k]
		last = max(last, st.end)
		blocks[i] = plan.Block{Origin: int(st.data), Dest: plan.All}
		t := plan.Transfer{
			ID: i, Src: int(st.src), Dst: int(st.dst),
			Blocks: blocks[i : i+1 : i+1],
			Phase:  -1,
			After:  after[i:i:i],
			Start:  clk.seconds(st.start), End: clk.seconds(st.end),
		}
		if st.after >= 0 {
			after[i] = id[st.after]
			t.After = after[i : i+1 : i+1]
		}
		p.Transfers[i] = t
	}
	p.Makespan = clk.seconds(last)
	return p
}

// planOrder sorts steps by start. At one start the outer level of the tree comes
// first: it took the ports first, and whoever replays the ports in the plan's order must
// do the same. Within a level the order is that of the greedy: end, data, and
// then the order of scheduling.
func planOrder(steps []step) []int32 {
	order := make([]int32, len(steps))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &steps[i], &steps[j]
		switch {
		case a.start != b.start:
			return cmp.Compare(a.start, b.start)
		case a.depth != b.depth:
			return cmp.Compare(a.depth, b.depth)
		case a.end != b.end:
			return cmp.Compare(a.end, b.end)
		case a.data != b.data:
			return cmp.Compare(a.data, b.data)
		}
		return cmp.Compare(i, j)
	})
	return order
}
