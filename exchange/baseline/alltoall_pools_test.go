package baseline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestAlltoallOverPools: each block enters each pool once, only coordinators talk between pools,
// with one message for each ordered pair of them and one after the other, and what
// stays in a pool goes straight.
func TestAlltoallOverPools(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 6))
		n := 1 + rng.IntN(40)
		pools := randomPools(rng, n)
		given := fmt.Sprint(pools)
		p, err := AlltoallHierarchical(names(n), randomSizes(rng, n), pools)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if fmt.Sprint(pools) != given {
			t.Fatalf("seed %d: the caller's pools %s became %v", seed, given, pools)
		}
		if err := plan.Verify(p, plan.Rules{Pools: pools}); err != nil {
			t.Fatalf("seed %d: pools %v: %v", seed, pools, err)
		}
		if err := checkEdges(p); err != nil {
			t.Fatalf("seed %d: pools %v: %v", seed, pools, err)
		}
		poolOf := make([]int, n)
		for k, pool := range pools {
			for _, r := range pool {
				poolOf[r] = k
			}
		}
		crossings, want := 0, len(pools)*(len(pools)-1)
		previous := make(map[int][]int) // coordinator -> its wide-area sends
		for i, tr := range p.Transfers {
			from, to := poolOf[tr.Src], poolOf[tr.Dst]
			if from == to {
				local := poolOf[tr.Blocks[0].Origin] == poolOf[tr.Blocks[0].Dest]
				if local && (len(tr.Blocks) != 1 || tr.Blocks[0] != plan.Block{Origin: tr.Src, Dest: tr.Dst}) {
					t.Fatalf("seed %d: pools %v: %d→%d carries %v", seed, pools, tr.Src, tr.Dst, tr.Blocks)
				}
				continue
			}
			crossings++
			if tr.Src != slices.Min(pools[from]) || tr.Dst != slices.Min(pools[to]) || len(tr.Blocks) != len(pools[from])*len(pools[to]) {
				t.Fatalf("seed %d: pools %v: %d→%d with %d blocks is not between coordinators", seed, pools, tr.Src, tr.Dst, len(tr.Blocks))
			}
			if sent := previous[tr.Src]; len(sent) > 0 && !slices.Contains(tr.After, sent[len(sent)-1]) {
				t.Fatalf("seed %d: pools %v: coordinator %d may send %d beside %v", seed, pools, tr.Src, i, sent)
			}
			previous[tr.Src] = append(previous[tr.Src], i)
		}
		if crossings != want {
			t.Fatalf("seed %d: pools %v: %d messages between pools, want %d", seed, pools, crossings, want)
		}
	}
}
