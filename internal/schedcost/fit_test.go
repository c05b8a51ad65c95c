package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// pointsOf is a series of a cost at sizes that double from 8.
func pointsOf(count int, cost func(n float64) float64) []point {
	var points []point
	for i := range count {
		n := 8 << i
		points = append(points, point{n: n, seconds: cost(float64(n))})
	}
	return points
}

func TestGrowFindsThePower(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		e, c := rng.Float64()*6, math.Exp(rng.NormFloat64()*5)
		points := pointsOf(3+rng.IntN(6), func(n float64) float64 { return c * math.Pow(n, e) })
		g, ok := grow(points, seconds)
		if !ok || math.Abs(g.exponent-e) > 1e-9 || g.deviation > 1e-6 {
			t.Fatalf("seed %d: %d points of n^%v: %+v, %v", seed, len(points), e, g, ok)
		}
	}
}

// What is constant at few hosts must not hide the growth: only the larger half counts.
func TestGrowTakesTheLargerHalf(t *testing.T) {
	points := pointsOf(8, func(n float64) float64 { return max(math.Pow(128, 3), math.Pow(n, 3)) })
	if g, ok := grow(points, seconds); !ok || math.Abs(g.exponent-3) > 1e-9 {
		t.Errorf("constant up to n=128, n³ from there: %+v, %v", g, ok)
	}
	points = pointsOf(8, func(n float64) float64 { return max(math.Pow(512, 3), math.Pow(n, 3)) })
	if g, _ := grow(points, seconds); g.exponent > 2.9 || g.deviation < 0.1 {
		t.Errorf("a bend in the larger half shows in the deviation: %+v", g)
	}
}

// The deviation of a fit is that of a slope in the textbook: x = 0, 1, 2 and y = 0, 1, 3 give
// a slope of 3/2 and a residual sum of squares of 1/6 on one degree of freedom, over Σ(x−x̄)² = 2.
func TestGrowDeviation(t *testing.T) {
	var points []point
	for i, y := range []float64{0, 1, 3} {
		points = append(points, point{n: 1 << i, seconds: math.Exp2(y)})
	}
	g, ok := grow(points, seconds)
	if want := math.Sqrt(1.0 / 12); !ok || math.Abs(g.exponent-1.5) > 1e-9 || math.Abs(g.deviation-want) > 1e-9 {
		t.Errorf("%+v, %v, want 1.5 ± %v", g, ok, want)
	}
}

func TestGrowRefuses(t *testing.T) {
	for name, points := range map[string][]point{
		"no points": nil,
		"two":       pointsOf(2, func(n float64) float64 { return n }),
		"a zero":    pointsOf(4, func(n float64) float64 { return n - 64 }),
		"one size":  {{n: 8, seconds: 1}, {n: 8, seconds: 2}, {n: 8, seconds: 3}},
	} {
		if g, ok := grow(points, seconds); ok {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestExpect(t *testing.T) {
	cube := pointsOf(3, func(n float64) float64 { return n * n * n })
	if got := expect(cube, 64, seconds); math.Abs(got-64*64*64) > 1e-3 {
		t.Errorf("n³ at 64: %v", got)
	}
	if got := expect(cube[:1], 64, seconds); got != 512 {
		t.Errorf("one point tells nothing: %v", got)
	}
	falling := pointsOf(3, func(n float64) float64 { return 1 / n })
	if got := expect(falling, 64, seconds); got != falling[2].seconds {
		t.Errorf("noise that falls is no growth: %v", got)
	}
}

func Example_digits() {
	for _, v := range []float64{0, 0.0123456, 0.5, 1.2345, 12.345, 99.96, 123.45, 1047552} {
		fmt.Print(digits(v), " ")
	}
	// Output: 0 0.0123 0.5 1.23 12.3 100 123 1047552
}
