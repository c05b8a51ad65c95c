package packed

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// randomSites draws pools with links of rates over two orders of magnitude, full or with gaps.
func randomSites(rng *rand.Rand, n int) *sites {
	s := &sites{n: n, capacity: make([]netmap.BytesPerSec, n*n), latency: make([]float64, n*n), bytes: make([]int64, n)}
	gaps := rng.IntN(4)
	for a := range n {
		s.bytes[a] = (1 + rng.Int64N(64)) << 20 * int64(rng.IntN(4)) / 3
		for b := range n {
			s.latency[a*n+b] = math.Inf(1)
			if a != b && (rng.IntN(8) >= gaps || b == (a+1)%n) {
				s.capacity[a*n+b] = netmap.BytesPerSec(1e5 * math.Exp(rng.Float64()*5))
				s.latency[a*n+b] = rng.Float64() * 0.1
			}
		}
	}
	s.shortest()
	return s
}

// TestRoutesReachTheBound: whatever the links, the fullest is within a few hundredths of what the
// cut bound asks for, and all bytes have a tree.
func TestRoutesReachTheBound(t *testing.T) {
	worst := make(map[int]float64)
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := []int{2, 3, 3, 4, 5, 7, 13}[rng.IntN(7)]
		s := randomSites(rng, n)
		in := plan.BoundInput{Bytes: s.bytes}
		for a := range n {
			in.Capacity = append(in.Capacity, s.capacity[a*n:(a+1)*n])
		}
		bound, err := plan.AllgatherBound(in)
		if err != nil {
			t.Fatal(err)
		}
		trees, err := s.trees()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		load, sum := make([]float64, n*n), make([]int64, n)
		for _, tr := range trees {
			sum[tr.root] += tr.bytes
			if tr.parent[tr.root] >= 0 || cycleOf(tr.parent) != nil {
				t.Fatalf("seed %d: no tree from %d: %v", seed, tr.root, tr.parent)
			}
			for to, from := range tr.parent {
				if to == tr.root {
					continue
				}
				if s.capacity[from*n+to] == 0 {
					t.Fatalf("seed %d: there is no link %d→%d", seed, from, to)
				}
				load[from*n+to] += float64(tr.bytes) / float64(s.capacity[from*n+to])
			}
		}
		fullest := 0.0
		for _, l := range load {
			fullest = max(fullest, l)
		}
		for k := range n {
			if sum[k] != s.bytes[k] {
				t.Fatalf("seed %d: pool %d has %d bytes, on trees are %d", seed, k, s.bytes[k], sum[k])
			}
		}
		if bound.Seconds == 0 {
			continue
		}
		if fullest < bound.Seconds*(1-1e-9) {
			t.Fatalf("seed %d: %v s are under the bound of %v s", seed, fullest, bound.Seconds)
		}
		if worst[n] = max(worst[n], fullest/bound.Seconds); fullest > 1.035*bound.Seconds {
			t.Errorf("seed %d: %d pools, the fullest link takes %.3f x bound", seed, n, fullest/bound.Seconds)
		}
	}
	t.Logf("the fullest link, x bound, by pools: %v", worst)
}
