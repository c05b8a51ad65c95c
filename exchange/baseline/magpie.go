package baseline

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// MagPIe returns the coordinator allgather of MagPIe (Kielmann et al., PPoPP 1999, as
// described by Gupta & Vadhiyar §2) over pools, which divide the ranks:
//
//  1. Gather: every member sends its block to the coordinator, the lowest rank of its pool.
//  2. Spreading simple among the coordinators: in iteration i coordinator c sends the
//     whole data of its pool, as one transfer of several blocks, to the i-th coordinator after it.
//  3. Broadcast: once a coordinator has everything, a binomial tree inside its pool.
//
// Choices that the description leaves open: the gather is flat; a phase begins at a
// host when its own part of the phase before is done, without a barrier; a coordinator has one
// transfer to another at a time and sends the next after the last one was sent and
// received; the broadcast goes to the largest subtree first, and leaves out the
// block that the receiver contributed, so that no host receives a block twice.
//
// The error names the pool and rank where pools are not a partition of the ranks.
func MagPIe(hosts []string, sizes []int64, pools [][]int) (*plan.Plan, error) {
	b, err := newBuilder("magpie", hosts, sizes)
	if err != nil {
		return nil, err
	}
	pools, err = checkPools(pools, b.n)
	if err != nil {
		return nil, fmt.Errorf("magpie: %w", err)
	}
	for _, pool := range pools {
		for _, r := range pool[1:] {
			b.send(r, pool[0], []int{r})
		}
	}
	b.endIteration()
	for i := 1; i < len(pools); i++ {
		for c, pool := range pools {
			b.step(pool[0], pools[(c+i)%len(pools)][0], pool...)
		}
		b.endIteration()
	}
	for _, pool := range pools {
		binomial(b, pool)
	}
	return b.plan, nil
}

// checkPools returns pools with the lowest rank of each first (its coordinator) and
// in the order of coordinators. It refuses pools that do not divide 0 … n−1.
func checkPools(pools [][]int, n int) ([][]int, error) {
	seen := make([]bool, n)
	out := make([][]int, 0, len(pools))
	count := 0
	for i, pool := range pools {
		if len(pool) == 0 {
			return nil, fmt.Errorf("pool %d is empty", i)
		}
		for _, r := range pool {
			if r < 0 || r >= n {
				return nil, fmt.Errorf("pool %d holds rank %d, want 0 … %d", i, r, n-1)
			}
			if seen[r] {
				return nil, fmt.Errorf("pool %d holds rank %d, which is in a pool already", i, r)
			}
			seen[r] = true
			count++
		}
		out = append(out, slices.Sorted(slices.Values(pool)))
	}
	if count != n {
		return nil, fmt.Errorf("rank %d is in no pool", slices.Index(seen, false))
	}
	slices.SortFunc(out, func(a, b []int) int { return a[0] - b[0] })
	return out, nil
}
