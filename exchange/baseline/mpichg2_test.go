package baseline

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
)

// treeOver returns the pool tree whose root has the given leaves, or is a leaf of n hosts
// if there are none.
func treeOver(n int, leaves [][]int) *pools.Tree {
	root := &pools.Pool{}
	for i := range n {
		root.Hosts = append(root.Hosts, i)
	}
	for _, leaf := range leaves {
		root.Children = append(root.Children, &pools.Pool{Hosts: slices.Sorted(slices.Values(leaf))})
	}
	return &pools.Tree{Root: root}
}

// randomTree returns a pool tree of n hosts: up to four levels, sub-pools in any order.
func randomTree(rng *rand.Rand, n int) *pools.Tree {
	tree := treeOver(n, nil)
	splitPool(rng, tree.Root, 3)
	return tree
}

func splitPool(rng *rand.Rand, p *pools.Pool, depth int) {
	if depth == 0 || len(p.Hosts) < 2 || rng.IntN(4) == 0 {
		return
	}
	parts := make([]*pools.Pool, 2+rng.IntN(min(len(p.Hosts), 6)-1))
	for k := range parts {
		parts[k] = &pools.Pool{}
	}
	for i, at := range rng.Perm(len(p.Hosts)) {
		k := i // the first ones make every part non-empty
		if i >= len(parts) {
			k = rng.IntN(len(parts))
		}
		parts[k].Hosts = append(parts[k].Hosts, p.Hosts[at])
	}
	for _, part := range parts {
		slices.Sort(part.Hosts)
		splitPool(rng, part, depth-1)
	}
	p.Children = parts
}

func blockSizes(rng *rand.Rand, n int) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = int64(rng.IntN(3)) * 1000
	}
	return sizes
}

// TestMPICHG2Properties: besides being an allgather in which a block enters each pool
// once, only representatives talk across a boundary, and the sends of a host follow one
// another: that is the serialisation at coordinators that the paper holds against it.
func TestMPICHG2Properties(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(33)
		tree := randomTree(rng, n)
		p, err := MPICHG2(names(n), blockSizes(rng, n), tree)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := prove(p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := plan.Verify(p, plan.Rules{Pools: tree.Sets()}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, pool := range tree.Sets() {
			for _, tr := range p.Transfers {
				for _, end := range [2][2]int{{tr.Src, tr.Dst}, {tr.Dst, tr.Src}} {
					if slices.Contains(pool, end[0]) && !slices.Contains(pool, end[1]) && end[0] != pool[0] {
						t.Fatalf("seed %d: %d→%d crosses the boundary of %v not at %d", seed, tr.Src, tr.Dst, pool, pool[0])
					}
				}
			}
		}
		if a, b, ok := parallelSends(p); ok {
			t.Fatalf("seed %d: host %d may send %d beside %d", seed, p.Transfers[a].Src, a, b)
		}
	}
}

// parallelSends finds two sends of one host neither of which waits, however indirectly, for the other.
func parallelSends(p *plan.Plan) (a, b int, found bool) {
	waits := make([][]bool, len(p.Transfers))
	latest := map[int]int{} // by host, its send before
	for i, t := range p.Transfers {
		waits[i] = make([]bool, len(p.Transfers))
		for _, k := range t.After {
			waits[i][k] = true
			for j, w := range waits[k] {
				waits[i][j] = waits[i][j] || w
			}
		}
		if k, ok := latest[t.Src]; ok && !waits[i][k] {
			return k, i, true
		}
		latest[t.Src] = i
	}
	return 0, 0, false
}

// TestMPICHG2OfOnePool: without levels the way up is all there is.
func TestMPICHG2OfOnePool(t *testing.T) {
	for n := 1; n <= 33; n++ {
		got, err := MPICHG2(names(n), []int64{5}, treeOver(n, nil))
		if err != nil {
			t.Fatal(err)
		}
		want, err := RecursiveDoubling(names(n), []int64{5})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.Transfers, want.Transfers, sameTransfer) {
			t.Errorf("n=%d: not recursive doubling", n)
		}
	}
}

func sameTransfer(a, b plan.Transfer) bool {
	return a.ID == b.ID && a.Src == b.Src && a.Dst == b.Dst && slices.Equal(a.Blocks, b.Blocks) && a.Phase == b.Phase &&
		slices.Equal(a.After, b.After) && a.Sync == b.Sync && a.Start == b.Start && a.End == b.End
}
