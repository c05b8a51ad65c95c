package probe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRateFilter(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		noisy := func(rate float64) float64 { return rate * (0.96 + 0.08*rng.Float64()) }
		var f rateFilter
		for i := range 20 {
			x := noisy(100)
			if i == 10 {
				x = 300 // one train gone wrong
			}
			changed := f.add(x, 0.01)
			if v, _ := f.value(); math.Abs(v-100) > 4.01 || changed {
				t.Fatalf("seed %d: %g after %d trains of 100, changed %v", seed, v, i, changed)
			}
			if want := i == 10; f.doubtful(0) != want {
				t.Fatalf("seed %d: train %d of %g doubtful %v", seed, i, x, !want)
			}
		}
		f.add(noisy(25), 0.01)
		if !f.doubtful(0) {
			t.Fatalf("seed %d: no second opinion wanted after a fall to a quarter", seed)
		}
		if v, _ := f.value(); math.Abs(v-100) > 4.01 {
			t.Fatalf("seed %d: %g after one reading of 25", seed, v)
		}
		changed := f.add(noisy(25), 0.01)
		v, spread := f.value()
		if !changed || math.Abs(v-25) > 1.01 || spread > 0.1 || f.readings() != 2 {
			t.Fatalf("seed %d: %g, spread %g, changed %v after two trains of 25", seed, v, spread, changed)
		}
	}
}

// TestFirstReadings: a lone reading is uncertain, and what like pairs have makes it doubtful.
func TestFirstReadings(t *testing.T) {
	var f rateFilter
	if v, _ := f.value(); v != 0 || f.doubtful(19) || f.newest() != 0 {
		t.Errorf("of nothing: %g, doubtful %v", v, f.doubtful(19))
	}
	f.add(16, 0.02)
	if _, spread := f.value(); spread < loneSpread {
		t.Errorf("a lone reading has spread %g", spread)
	}
	if !f.doubtful(19) || f.doubtful(16.5) || f.doubtful(0) {
		t.Error("16 beside others of 19 is not doubtful, or beside 16.5, or nobody, is")
	}
	f.add(19, 0.02)
	if v, _ := f.value(); v != 19 || !f.doubtful(0) {
		t.Errorf("of 16 and 19: %g, doubtful %v; what disturbs a train lowers it", v, f.doubtful(0))
	}
	f.add(19.2, 0.02)
	if v, spread := f.value(); v != 19 || f.doubtful(0) || spread > 0.15 {
		t.Errorf("of 16, 19 and 19.2: %g, spread %g, doubtful %v", v, spread, f.doubtful(0))
	}
}

// A believer is a filter to compare.
type believer interface {
	add(x float64)
	value() float64
}

type chosen struct{ f rateFilter }

func (c *chosen) add(x float64) { c.f.add(x, 0.02) }
func (c *chosen) value() float64 {
	v, _ := c.f.value()
	return v
}

type lastOnly struct{ v float64 }

func (l *lastOnly) add(x float64)  { l.v = x }
func (l *lastOnly) value() float64 { return l.v }

// plainMedian is the median of the last n, without any notion of a change.
type plainMedian struct {
	n int
	v []float64
}

func (m *plainMedian) add(x float64) {
	m.v = append(m.v, x)
	m.v = m.v[max(0, len(m.v)-m.n):]
}
func (m *plainMedian) value() float64 {
	s := slices.Sorted(slices.Values(m.v))
	return s[len(s)/2]
}

// kalman is a random walk seen through Gaussian noise, with a gate: what lies more than three
// deviations off counts little the first time, and restarts the filter the second.
type kalman struct {
	x, p  float64 // logarithm of the rate, variance
	wild  float64
	begun bool
}

func (k *kalman) add(v float64) {
	const q, r = 1e-4, 9e-4 // 1 % a step, 3 % a reading
	z := math.Log(v)
	if !k.begun {
		k.x, k.p, k.begun = z, r, true
		return
	}
	k.p += q
	if d := z - k.x; d*d > 9*(k.p+r) {
		if k.wild != 0 && math.Abs(z-k.wild) < 0.15 {
			k.x, k.p, k.wild = (z+k.wild)/2, r, 0
			return
		}
		k.wild = z
		return
	}
	k.wild = 0
	g := k.p / (k.p + r)
	k.x += g * (z - k.x)
	k.p *= 1 - g
}
func (k *kalman) value() float64 { return math.Exp(k.x) }

// TestRateFilterChosen compares the filter with others on what trains are like: a few per cent
// of noise, one in seven lowered by other traffic, one in thirty raised by a burst, and a link that
// now and then falls or rises. It must not be worse than any other in both of what counts: the
// error while nothing changes, and the readings until a change is believed.
func TestRateFilterChosen(t *testing.T) {
	kinds := []struct {
		name string
		make func() believer
	}{
		{"median of 7 with changes", func() believer { return &chosen{} }},
		{"last", func() believer { return &lastOnly{} }},
		{"median of 3", func() believer { return &plainMedian{n: 3} }},
		{"median of 5", func() believer { return &plainMedian{n: 5} }},
		{"median of 9", func() believer { return &plainMedian{n: 9} }},
		{"Kalman with a gate", func() believer { return &kalman{} }},
	}
	type score struct{ p90, late float64 }
	scores := make([]score, len(kinds))
	for k, kind := range kinds {
		var errs, late []float64
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 3))
			f := kind.make()
			truth := 20.0
			waiting, since := false, 0
			for i := range 200 {
				if i > 0 && i%40 == 0 {
					truth *= []float64{0.25, 4, 0.5, 2, 0.7}[rng.IntN(5)]
					waiting, since = true, 0
				}
				x := truth * (1 + 0.02*rng.NormFloat64())
				switch u := rng.Float64(); {
				case u < 1.0/7:
					x *= 0.95 - 0.25*rng.Float64()
				case u < 1.0/7+1.0/30:
					x *= 1 + 0.5*rng.Float64()
				}
				f.add(x)
				off := math.Abs(f.value()/truth - 1)
				since++
				if waiting {
					if off < 0.1 {
						waiting = false
						late = append(late, float64(since))
					}
					continue
				}
				errs = append(errs, off)
			}
		}
		slices.Sort(errs)
		slices.Sort(late)
		scores[k] = score{quantile(errs, 0.9), quantile(late, 0.9)}
		t.Logf("%-26s nine of ten errors below %4.1f %%, nine of ten changes believed after %g readings", kind.name, 100*scores[k].p90, scores[k].late)
	}
	ours := scores[0]
	for k, s := range scores[1:] {
		if s.p90 <= ours.p90 && s.late < ours.late || s.p90 < ours.p90*0.9 && s.late <= ours.late {
			t.Errorf("%s is better", kinds[k+1].name)
		}
	}
	if ours.p90 > 0.06 || ours.late > 3 {
		t.Errorf("errors up to %.3f, changes after %g readings", ours.p90, ours.late)
	}
}
