package logp

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// measureAll follows NextSize over a curve until it has enough.
func measureAll(t *testing.T, most int64, gap func(int64) time.Duration) []Point {
	t.Helper()
	var points []Point
	for {
		size, ok := NextSize(points, most, 0)
		if !ok {
			return points
		}
		if len(points) == MaxPoints {
			t.Fatalf("a further size, %d, after %d", size, MaxPoints)
		}
		at, twice := slices.BinarySearchFunc(points, size, func(p Point, s int64) int { return cmp.Compare(p.Size, s) })
		if twice || size < 1 || size > max(most, 1) {
			t.Fatalf("size %d of at most %d after %v", size, most, points)
		}
		points = slices.Insert(points, at, Point{Size: size, Gap: gap(size)})
	}
}

func TestNextSizeOfALine(t *testing.T) {
	line := func(size int64) time.Duration { return 20*time.Microsecond + time.Duration(size)*6400 }
	for most, want := range map[int64]int{0: 1, 1023: 1, 1024: 2, 5000: 3, MostSize: 7, 1 << 30: 7} {
		if got := measureAll(t, most, line); len(got) != want {
			t.Errorf("up to %d bytes: %v, want %d points", most, got, want)
		}
	}
}

// Where the curve bends, the sizes next to the bend are measured.
func TestNextSizeFindsABend(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		at := int64(float64(int64(8<<10)) * (1 + 30*rng.Float64()))
		gap := func(size int64) time.Duration {
			return 20*time.Microsecond + time.Duration(size)*10 + time.Duration(max(size-at, 0))*100
		}
		points := measureAll(t, MostSize, gap)
		m := mustNew(t, points)
		for size := int64(1); size <= MostSize; size = size*5/4 + 1 {
			got, want := float64(m.At(size).Gap), float64(gap(size))
			if got < want*0.8 || got > want*1.3 {
				t.Errorf("seed %d, bend at %d: g(%d) = %.3g µs, want %.3g; %d points", seed, at, size, got/1e3, want/1e3, len(points))
				break
			}
		}
	}
}

// What may be noise is not looked into.
func TestNextSizeIgnoresNoise(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 8))
		const noise = 3 * time.Millisecond
		var points []Point
		for {
			size, ok := NextSize(points, MostSize, noise)
			if !ok {
				break
			}
			points = append(points, Point{Size: size, Gap: noise + time.Duration(size)*400 + time.Duration(rng.Int64N(int64(noise))-int64(noise/2))})
		}
		if len(points) != 7 {
			t.Fatalf("seed %d: %d points, want the 7 of a line: %v", seed, len(points), points)
		}
	}
}

// Whatever the readings, sizes are new, within bounds, and come to an end.
func TestNextSizeEnds(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		measureAll(t, rng.Int64N(2*MostSize), func(int64) time.Duration { return time.Duration(rng.Int64N(1e9)) })
	}
}
