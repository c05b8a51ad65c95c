package packed

import (
	"math"
	"math/rand/v2"
	"testing"
)

// leastTree tries every choice of parents.
func leastTree(n, root int, cost []float64) float64 {
	least := math.Inf(1)
	parent := make([]int, n)
	var try func(v int, sum float64)
	try = func(v int, sum float64) {
		switch {
		case sum >= least:
		case v == n:
			if cycleOf(parent) == nil {
				least = sum
			}
		case v == root:
			parent[v] = -1
			try(v+1, sum)
		default:
			for from := range n {
				if from != v {
					parent[v] = from
					try(v+1, sum+cost[from*n+v])
				}
			}
		}
	}
	try(0, 0)
	return least
}

func TestArborescence(t *testing.T) {
	unreachable := 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(6)
		root := rng.IntN(n)
		cost := make([]float64, n*n)
		for i := range cost {
			cost[i] = float64(rng.IntN(12)) // small numbers: many ties and many cycles
			if rng.IntN(4) == 0 {
				cost[i] = math.Inf(1)
			}
		}
		want := leastTree(n, root, cost)
		parent, ok := arborescence(n, root, cost)
		if ok != !math.IsInf(want, 1) {
			t.Fatalf("seed %d: found %v, the least is %v", seed, ok, want)
		}
		if !ok {
			unreachable++
			continue
		}
		sum := 0.0
		for to, from := range parent {
			if (from < 0) != (to == root) {
				t.Fatalf("seed %d: parents %v of root %d", seed, parent, root)
			}
			if from >= 0 {
				sum += cost[from*n+to]
			}
		}
		if cycleOf(parent) != nil || sum != want {
			t.Fatalf("seed %d: parents %v cost %v, the least is %v", seed, parent, sum, want)
		}
	}
	if unreachable < 50 || unreachable > 1000 {
		t.Errorf("%d of 1500 were unreachable: the seeds try too little", unreachable)
	}
}
