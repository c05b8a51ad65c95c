package ring

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// shortest tries every ring of t and returns the least maximum path length of those
// without contention.
func shortest(t *plan.Topology) int {
	n := len(t.Hosts())
	if n == 1 {
		return 0
	}
	links := make([]uint64, n*n) // sets of directed links
	length := make([]int, n*n)
	for a := range n {
		for b := range n {
			way := t.Path(nil, a, b)
			length[a*n+b] = len(way) - 1
			for _, l := range way {
				links[a*n+b] |= 1 << l
			}
		}
	}
	best := math.MaxInt
	var extend func(at int, visited, used uint64, longest, count int)
	extend = func(at int, visited, used uint64, longest, count int) {
		if longest >= best {
			return
		}
		if count == n {
			if used&links[at*n] == 0 {
				best = min(best, max(longest, length[at*n]))
			}
			return
		}
		for b := 1; b < n; b++ {
			if visited&(1<<b) == 0 && used&links[at*n+b] == 0 {
				extend(b, visited|1<<b, used|links[at*n+b], max(longest, length[at*n+b]), count+1)
			}
		}
	}
	extend(0, 1, 0, 0, 1)
	return best
}

// TestAgainstAllRings compares with every ring there is: LR3 is the shortest, LR1 is no
// shorter, and Theorem 2 says when two hops are enough.
func TestAgainstAllRings(t *testing.T) {
	for seed := range uint64(10000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		topo := randomTree(rng, 12, 9)
		want := shortest(topo)
		order, path := LR3(topo)
		check(t, topo, order, path)
		if path != want {
			t.Fatalf("seed %d: lr3 %v has path length %d, the shortest is %d, on %s", seed, order, path, want, describe(topo))
		}
		first, longer := LR1(topo)
		check(t, topo, first, longer)
		if longer < want {
			t.Fatalf("seed %d: lr1 has path length %d, the shortest is %d", seed, longer, want)
		}
		second, two, err := LR2(topo)
		if (err == nil) != (want <= 2) {
			t.Fatalf("seed %d: lr2: %v, and the shortest path length is %d, on %s", seed, err, want, describe(topo))
		}
		if err == nil {
			check(t, topo, second, two)
			if two != want {
				t.Fatalf("seed %d: lr2 has path length %d, the shortest is %d, on %s", seed, two, want, describe(topo))
			}
		}
	}
}
