package probe

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

func TestLossFilter(t *testing.T) {
	if gridtest.Race {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 6))
		var f lossFilter
		for _, rate := range []float64{0.01, 0.1, 0} { // each for long enough that the one before is forgotten
			for range 20_000 {
				lost := 0.0
				for range 16 {
					if rng.Float64() < rate {
						lost++
					}
				}
				f.add(16, lost)
			}
			share, ok := f.value()
			if !ok || share < 0.7*rate || share > 1.3*rate+1e-4 {
				t.Fatalf("seed %d: %g, want %g", seed, share, rate)
			}
		}
	}
	var f lossFilter
	for _, bad := range [][2]float64{{-1, 0}, {10, 11}, {10, -1}, {0, 0}} {
		f.add(bad[0], bad[1])
	}
	f.add(lossEnough-1, 1)
	if share, ok := f.value(); ok {
		t.Errorf("%g after %g packets", share, f.count().sent)
	}
}
