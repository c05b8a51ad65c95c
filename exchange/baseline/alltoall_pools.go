package baseline

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// AlltoallHierarchical returns the alltoall through coordinators over pools, which
// divide the ranks: what [MagPIe] does for allgather, for blocks that differ.
//
//  1. Gather: every member sends all of its blocks for other pools, as one transfer, to
//     the coordinator, the lowest rank of its pool.
//  2. Exchange: in iteration i coordinator c sends all blocks from its pool to the i-th
//     pool after it, as one transfer, to the coordinator there.
//  3. Scatter: the coordinator sends each member all blocks that came for it from other
//     pools, as one transfer.
//
// Blocks that stay in a pool go straight, one transfer each, beside all of that. So a
// block enters a pool once, and a pair of pools costs one message over the wide area in
// place of one for each pair of ranks; but one host of each pool does all the
// wide-area work. As in MagPIe a coordinator has one transfer to another at a time and
// sends the next after the last one was sent and received; there is no barrier.
//
// The error names the pool and rank where pools are not a partition of the ranks.
func AlltoallHierarchical(hosts []string, sizes plan.AlltoallSizes, pools [][]int) (*plan.Plan, error) {
	a, err := newAlltoall("hierarchical", hosts, sizes)
	if err != nil {
		return nil, err
	}
	pools, err = checkPools(pools, a.n)
	if err != nil {
		return nil, fmt.Errorf("hierarchical: %w", err)
	}
	if len(pools) > 1 {
		throughCoordinators(a, pools)
	}
	for _, pool := range pools {
		for i := 1; i < len(pool); i++ {
			for at, src := range pool {
				dst := pool[(at+i)%len(pool)]
				a.send(src, dst, a.message(src, dst), nil, nil)
			}
		}
	}
	return a.plan, nil
}

// throughCoordinators appends gather, exchange and scatter. Members hand over their blocks
// in the order in which the coordinator sends them on, and get theirs in the order in
// which they come, so that the three can overlap where blocks stream through.
func throughCoordinators(a *alltoall, pools [][]int) {
	gathered := make([][]int, len(pools)) // by pool: the transfers to its coordinator
	for k, pool := range pools {
		dests := slices.Concat(slices.Concat(pools[k+1:], pools[:k])...)
		for _, member := range pool[1:] {
			gathered[k] = append(gathered[k], a.send(member, pool[0], across([]int{member}, dests), nil, nil))
		}
	}
	crossed := make([][]int, len(pools)) // by pool: the transfers to its coordinator from others
	for i := 1; i < len(pools); i++ {
		for k, pool := range pools {
			to := (k + i) % len(pools)
			id := a.step(pool[0], pools[to][0], across(pool, pools[to]), gathered[k]...)
			crossed[to] = append(crossed[to], id)
		}
		a.endIteration()
	}
	for k, pool := range pools {
		from := slices.Concat(pools[k+1:], pools[:k])
		slices.Reverse(from)
		origins := slices.Concat(from...)
		for _, member := range pool[1:] {
			a.send(pool[0], member, across(origins, []int{member}), crossed[k], nil)
		}
	}
}

// across returns the blocks from each of origins to each of dests.
func across(origins, dests []int) []plan.Block {
	out := make([]plan.Block, 0, len(origins)*len(dests))
	for _, o := range origins {
		for _, d := range dests {
			out = append(out, plan.Block{Origin: o, Dest: d})
		}
	}
	return out
}
