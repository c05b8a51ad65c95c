package probe

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMeanFilterChosen compares the mean with the median filter of trains on what bulk probes of a
// lossy path are like: each knows how many losses it saw, from 6 to 50, and wanders by half of 1/√n.
func TestMeanFilterChosen(t *testing.T) {
	var mean, medians float64
	const runs, truth = 400, 27.0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 11))
		var m meanFilter
		var r rateFilter
		for range 7 {
			spread := 0.5 / math.Sqrt(6+44*rng.Float64())
			x := truth * (1 + spread*rng.NormFloat64())
			m.add(x, spread)
			r.add(x, spread)
		}
		a, _ := m.value()
		b, _ := r.value()
		mean += (a/truth - 1) * (a/truth - 1) / runs
		medians += (b/truth - 1) * (b/truth - 1) / runs
	}
	mean, medians = math.Sqrt(mean), math.Sqrt(medians)
	t.Logf("after 7 readings the mean is off by %.1f %%, the median by %.1f %%", 100*mean, 100*medians)
	if mean > 0.9*medians || mean > 0.045 {
		t.Errorf("the mean is off by %.3f, the median by %.3f", mean, medians)
	}
}

// TestMeanFilter: an outlier costs little and makes the value unsure, and a second reading that agrees
// with it is a change.
func TestMeanFilter(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 12))
		noisy := func(rate float64) float64 { return rate * (0.94 + 0.12*rng.Float64()) }
		var f meanFilter
		n := 2 + rng.IntN(2*meanWindow)
		for range n {
			f.add(noisy(100), 0.05)
		}
		v, spread := f.value()
		if math.Abs(v-100) > 6 || spread > 0.08 || f.readings() != min(n, meanWindow) {
			t.Fatalf("seed %d: %g, spread %g of %d readings of 100", seed, v, spread, n)
		}
		other := []float64{20, 300}[rng.IntN(2)]
		f.add(noisy(other), 0.05)
		if w, s := f.value(); math.Abs(w-100) > 6 || s <= spread {
			t.Fatalf("seed %d: %g, spread %g before %g, after one reading of %g", seed, w, s, spread, other)
		}
		f.add(noisy(other), 0.05)
		if w, _ := f.value(); math.Abs(w/other-1) > 0.06 || f.readings() != 2 {
			t.Fatalf("seed %d: %g after two readings of %g, %d kept", seed, w, other, f.readings())
		}
	}
	var f meanFilter
	if v, s := f.value(); v != 0 || s != 0 {
		t.Errorf("of nothing: %g, %g", v, s)
	}
	f.add(10, 0.001)
	if _, s := f.value(); s < loneSpread {
		t.Errorf("a lone reading has spread %g", s)
	}
}

// Of readings that contradict each other the surest may be the one that is wrong: a flow that has a slow link for itself while its slow start
// keeps strangers out of the queue agrees with itself.
func TestSureAndWrong(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 13))
		var f meanFilter
		n := 3 + rng.IntN(5)
		wrong := rng.IntN(n)
		for i := range n {
			if i == wrong {
				f.add(130, 0.02)
				continue
			}
			f.add(100*(1+0.05*rng.NormFloat64()), 0.065)
		}
		if v, spread := f.value(); math.Abs(v-100) > 20 || spread < math.Abs(v-100)/300 {
			t.Errorf("seed %d: %.1f, spread %.3f of %v", seed, v, spread, f.rates)
		}
	}
	var even meanFilter
	for _, x := range []float64{98, 101, 102} { // their errors explain it
		even.add(x, 0.05)
	}
	if v := even.between(); v != 0 {
		t.Errorf("readings that agree have %g between them", v)
	}
	if v := (&meanFilter{rates: []float64{1}, spreads: []float64{0.1}}).between(); v != 0 {
		t.Errorf("one reading has %g between it", v)
	}
	if v := (&meanFilter{rates: []float64{80, 120}, spreads: []float64{0.02, 0.02}}).between(); math.Abs(math.Sqrt(v)-0.28) > 0.01 {
		t.Errorf("80 and 120 wander by %.3f, want 0.28", math.Sqrt(v))
	}
}
