package plan

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFairShare checks the two marks of max-min fairness on random flows: no resource
// is overloaded, and every flow meets its ceiling or has a full resource on which none is faster.
func TestFairShare(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 8))
		capacity := make([]float64, 1+rng.IntN(8))
		for i := range capacity {
			capacity[i] = math.Exp(rng.Float64() * 10)
		}
		flows := make([]*flow, 1+rng.IntN(20))
		for i := range flows {
			flows[i] = &flow{ceiling: math.Exp(rng.Float64() * 10), resources: rng.Perm(len(capacity))[:1+rng.IntN(min(3, len(capacity)))]}
		}
		// Flows begin and end in random order; shares are divided among those that are touched.
		s := newFairShare(capacity, flows)
		on := make([]bool, len(flows))
		for step := range 3 * len(flows) {
			k := rng.IntN(len(flows))
			if step >= 2*len(flows) {
				k = step - 2*len(flows)
				if on[k] {
					continue
				}
			}
			if on[k] {
				s.remove(flows[k])
			} else {
				s.add(flows[k])
			}
			on[k] = !on[k]
			s.divide(s.touched(flows[k : k+1]))
		}
		load, fastest := make([]float64, len(capacity)), make([]float64, len(capacity))
		for _, f := range flows {
			for _, r := range f.resources {
				load[r] += f.share
				fastest[r] = max(fastest[r], f.share)
			}
		}
		for i, f := range flows {
			fair := f.share == f.ceiling
			for _, r := range f.resources {
				if load[r] > capacity[r]*(1+1e-9) {
					t.Fatalf("seed %d: resource %d carries %v of %v", seed, r, load[r], capacity[r])
				}
				fair = fair || load[r] >= capacity[r]*(1-1e-9) && f.share >= fastest[r]*(1-1e-9)
			}
			if !fair || f.share > f.ceiling {
				t.Fatalf("seed %d: flow %d could be faster than %v", seed, i, f.share)
			}
		}
	}
}
