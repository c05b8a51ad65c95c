package probe

import (
	"math"
	"math/rand/v2"
	"testing"
)

// search runs the search over a true curve, with relative noise, and returns what it measured.
func search(rate func(k int) float64, noise float64, most int, rng *rand.Rand) (curve []lanePoint) {
	s := kneeSearch{most: most}
	for k := s.next(curve); k > 0; k = s.next(curve) {
		curve = append(curve, lanePoint{Lanes: k, Rate: rate(k) * (1 + noise*rng.NormFloat64()), Spread: noise})
	}
	return curve
}

func TestKneeOfCeilings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, share := range []float64{1, 0.9, 0.5, 0.3, 0.25, 0.13, 0.1, 1. / 17, 1. / 40, 1. / 64} {
		rate := func(k int) float64 { return min(float64(k)*share, 1) * 1e6 }
		curve := search(rate, 0, maxLanes, rng)
		c, k := knee(curve)
		least := 1
		for rate(least) < kneeShare*1e6 {
			least++
		}
		if math.Abs(c/1e6-1) > 0.01 || k > 2*least || 2*k < least {
			t.Errorf("a flow gets %.3f: capacity %g with %d lanes, want 1e6 with %d; %v", share, c, k, least, curve)
		}
		if n := curve[len(curve)-1].Lanes; n > 4*least {
			t.Errorf("a flow gets %.3f: searched up to %d lanes, %d are enough", share, n, least)
		}
	}
}

// Whatever the rates, the search ends, stays within its bound, and the knee is a number of
// lanes within what was measured whose neighbours bracket it.
func TestKneeOfAnything(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		most := 1 + rng.IntN(100)
		wild := make([]float64, 128)
		for i := range wild {
			wild[i] = math.Exp(20 * rng.Float64())
		}
		curve := search(func(k int) float64 { return wild[k] }, 0, most, rng)
		c, k := knee(curve)
		last := curve[len(curve)-1].Lanes
		if last > min(most, maxLanes) || k < 1 || k > last || len(curve) > 7 {
			t.Fatalf("seed %d: %d lanes of %d, %v", seed, k, most, curve)
		}
		for i, p := range curve {
			if p.Rate > c {
				t.Fatalf("seed %d: capacity %g, %v", seed, c, curve)
			}
			if i > 0 && p.Lanes != 2*curve[i-1].Lanes {
				t.Fatalf("seed %d: %v", seed, curve)
			}
			if p.Lanes >= k {
				break
			}
			if p.Rate >= kneeShare*c {
				t.Fatalf("seed %d: knee at %d, but %d lanes do: %v", seed, k, p.Lanes, curve)
			}
		}
	}
	if c, k := knee(nil); c != 0 || k != 0 {
		t.Errorf("of nothing: %g, %d", c, k)
	}
}

// Points that are not sure do not end a search: 2 lanes of a lossy path may by chance get
// no more than one did.
func TestDoubtGoesOn(t *testing.T) {
	sure := []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.02}, {Lanes: 2, Rate: 105, Spread: 0.02}}
	if n := (kneeSearch{most: 64}).next(sure); n != 0 {
		t.Errorf("goes on with %d", n)
	}
	sure[0].Spread = 0.3
	if n := (kneeSearch{most: 64}).next(sure); n != 4 {
		t.Errorf("%d lanes next, want 4", n)
	}
}

// A search that knows what one lane gets begins above the knee, and ends there if a queue stands and the lanes get together what
// trains read; one that was cut short in the middle has met nothing.
func TestSearchBeginsNearTheKnee(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 17))
		const line = 100.0
		part := 0.02 + 0.45*rng.Float64()
		s := kneeSearch{most: maxLanes, begin: filling(part), line: line}
		if got := float64(s.begin) * part; s.begin < maxLanes && (got < 4./3 || got >= 8./3) {
			t.Fatalf("seed %d: %d lanes of %.3f each", seed, s.begin, part)
		}
		curve := []lanePoint{{Lanes: 1, Rate: part * line, Spread: 0.1, Enough: true}}
		if k := s.next(curve); k != s.begin || s.met(curve) || s.flat(curve) {
			t.Fatalf("seed %d: %d lanes first, want %d", seed, k, s.begin)
		}
		curve = append(curve, lanePoint{Lanes: s.begin, Rate: line, Spread: 0.02, Enough: true, Full: true})
		if _, k := knee(curve); !s.met(curve) || s.next(curve) != 0 || float64(k) < 0.9*0.95/part || float64(k) > 1.5/part+1 {
			t.Fatalf("seed %d: knee at %d lanes of %.3f each", seed, k, part)
		}
		curve[1].Full, curve[1].Rate = false, 0.7*line
		if s.met(curve) || s.flat(curve) {
			t.Fatalf("seed %d: the link is not full, and the search ends", seed)
		}
	}
}

// Lanes that get into each other's way on a slow link that strangers share are never sure of anything, and the search still ends: it would take
// minutes of the link.
func TestSearchIsStuck(t *testing.T) {
	for _, tt := range []struct {
		name  string
		curve []lanePoint
		next  int
	}{
		{"four lanes get what one gets", []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.2}, {Lanes: 2, Rate: 110, Spread: 0.3}, {Lanes: 4, Rate: 105, Spread: 0.3}}, 0},
		{"and nobody is sure", []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.2}, {Lanes: 2, Rate: 110, Spread: 1}, {Lanes: 4, Rate: 105, Spread: 1}}, 0},
		{"the second point, and unsure", []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.2}, {Lanes: 4, Rate: 105, Spread: 1}}, 8},
		{"the second point, and sure enough", []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.2}, {Lanes: 4, Rate: 105, Spread: 0.3}}, 0},
		{"they gain", []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.2}, {Lanes: 2, Rate: 105, Spread: 0.3}, {Lanes: 4, Rate: 210, Spread: 0.3}}, 8},
	} {
		s := kneeSearch{most: maxLanes, begin: tt.curve[1].Lanes}
		if n := s.next(tt.curve); n != tt.next {
			t.Errorf("%s: %d lanes next, want %d", tt.name, n, tt.next)
		}
	}
}

// Lanes that were cut short while they got under way say nothing of the knee: a host that yields at that instant would believe for an hour that
// one lane gets all.
func TestCutShortSaysNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spread float64
		flat   bool
	}{{"two lanes were just dialed", steadyUnknown, false}, {"two lanes were read", steadyUnsure, true}} {
		curve := []lanePoint{{Lanes: 1, Rate: 100, Spread: 0.02, Enough: true}, {Lanes: 2, Rate: 101, Spread: tt.spread}}
		if got := (kneeSearch{most: maxLanes}).flat(curve); got != tt.flat {
			t.Errorf("%s: flat %v, want %v", tt.name, got, tt.flat)
		}
	}
}
