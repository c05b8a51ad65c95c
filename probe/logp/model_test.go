package logp

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// random returns points that need not rise in their times.
func random(rng *rand.Rand) []Point {
	n := minPoints + rng.IntN(MaxPoints-minPoints+1)
	points := make([]Point, n)
	size := int64(rng.IntN(2))
	for i := range points {
		points[i] = Point{
			Size: size, Send: time.Duration(rng.Int64N(1e6)), Receive: time.Duration(rng.Int64N(1e5)),
			Gap: time.Duration(float64(size)*(0.5+rng.Float64())*10) + time.Duration(rng.Int64N(1e4)),
		}
		size += 1 + rng.Int64N(1<<uint(1+rng.IntN(20)))
	}
	return points
}

func mustNew(t *testing.T, points []Point) Model {
	t.Helper()
	m, err := New(points)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNewMakesTimesRise(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		points := random(rng)
		m := mustNew(t, points)
		if err := m.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		shuffled := slices.Clone(points)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := mustNew(t, shuffled); !slices.Equal(again.Points, m.Points) {
			t.Fatalf("seed %d: another order gives %v, want %v", seed, again, m)
		}
		if again := mustNew(t, m.Points); !slices.Equal(again.Points, m.Points) {
			t.Fatalf("seed %d: a model changes when it is made again: %v, want %v", seed, again, m)
		}
	}
}

// The regression is the best of all rising sequences: none on a grid is better, and each
// mean can be moved neither up nor down.
func TestIsotonicIsOptimal(t *testing.T) {
	cost := func(v, fit []time.Duration) (sum int64) {
		for i := range v {
			sum += int64((v[i] - fit[i]) * (v[i] - fit[i]))
		}
		return sum
	}
	const most, scale = 6, 60 // means of up to five of the values are whole
	var rising func(fit []time.Duration, n int, f func([]time.Duration))
	rising = func(fit []time.Duration, n int, f func([]time.Duration)) {
		if len(fit) == n {
			f(fit)
			return
		}
		low := time.Duration(0)
		if len(fit) > 0 {
			low = fit[len(fit)-1]
		}
		for d := low; d <= most*scale; d += scale / 4 {
			rising(append(fit, d), n, f)
		}
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		v := make([]time.Duration, 1+rng.IntN(5))
		for i := range v {
			v[i] = time.Duration(rng.IntN(most)) * scale
		}
		got := isotonic(v)
		if !slices.IsSorted(got) || len(got) != len(v) {
			t.Fatalf("seed %d: %v gives %v", seed, v, got)
		}
		least := cost(v, got)
		rising(nil, len(v), func(fit []time.Duration) {
			if c := cost(v, fit); c < least {
				t.Fatalf("seed %d: %v gives %v, which costs %d; %v costs %d", seed, v, got, least, fit, c)
			}
		})
	}
	if got := isotonic([]time.Duration{1, 5, 3, 4, 2, 9}); !slices.Equal(got, []time.Duration{1, 3, 3, 3, 3, 9}) {
		t.Errorf("a textbook case gives %v", got)
	}
}

func TestAtIsContinuousAndRises(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := mustNew(t, random(rng))
		for _, p := range m.Points {
			if got := m.At(p.Size); got != p {
				t.Fatalf("seed %d: at a point %+v, want %+v", seed, got, p)
			}
		}
		last := m.Points[len(m.Points)-1]
		// Between two sizes that differ by a byte, a time rises by no more than the steepest
		// line does, rounded up: no jump anywhere, and none at the points.
		steepest := map[string]float64{}
		for i := 1; i < len(m.Points); i++ {
			for _, c := range curves {
				a, b := m.Points[i-1], m.Points[i]
				steepest[c.name] = max(steepest[c.name], float64(*c.of(&b)-*c.of(&a))/float64(b.Size-a.Size))
			}
		}
		for range 200 {
			size := rng.Int64N(2*last.Size + 2)
			if rng.IntN(3) == 0 {
				size = m.Points[rng.IntN(len(m.Points))].Size
			}
			a, b := m.At(size), m.At(size+1)
			for _, c := range curves {
				step := float64(*c.of(&b) - *c.of(&a))
				if step < 0 || step > steepest[c.name]+1 {
					t.Fatalf("seed %d: %s steps by %g ns from %d to %d bytes, want 0 to %g", seed, c.name, step, size, size+1, steepest[c.name]+1)
				}
			}
		}
		first := m.Points[0]
		if got := m.At(-5); got.Gap != first.Gap || got.Size != 0 {
			t.Fatalf("seed %d: at -5 bytes %+v", seed, got)
		}
		if got := m.At(math.MaxInt64); got.Gap < last.Gap || got.Gap > forever {
			t.Fatalf("seed %d: at 2^63-1 bytes a gap of %v", seed, got.Gap)
		}
	}
	if got := (Model{}).At(1000); got != (Point{Size: 1000}) {
		t.Errorf("the zero model answers %+v", got)
	}
}

// Beyond the last point the last line goes on: g(m) tends to m over the bandwidth.
func TestAtBeyondTheLastPoint(t *testing.T) {
	m := Model{Points: []Point{{Size: 1, Gap: 10 * time.Microsecond}, {Size: 1 << 10, Gap: 100 * time.Microsecond}, {Size: 1 << 11, Gap: 200 * time.Microsecond}}}
	if got, want := m.At(1<<30).Gap, 200*time.Microsecond+(1<<30-1<<11)/1024*100*time.Microsecond; got != want {
		t.Errorf("g(2^30) = %v, want %v", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	ok := []Point{{Size: 1}, {Size: 1024, Gap: time.Millisecond}}
	mustNew(t, ok)
	tests := map[string]func([]Point) []Point{
		"one point":        func(p []Point) []Point { return p[:1] },
		"no points":        func([]Point) []Point { return nil },
		"17 points":        func(p []Point) []Point { return append(slices.Repeat(p[:1], 16), p[1]) },
		"from 2 bytes":     func(p []Point) []Point { p[0].Size = 2; return p },
		"negative size":    func(p []Point) []Point { p[0].Size = -1; return p },
		"size twice":       func(p []Point) []Point { p[1].Size = 1; return p },
		"petabytes":        func(p []Point) []Point { p[1].Size = MaxSize + 1; return p },
		"negative gap":     func(p []Point) []Point { p[1].Gap = -1; return p },
		"negative send":    func(p []Point) []Point { p[0].Send = -1; return p },
		"receive of years": func(p []Point) []Point { p[1].Receive = MaxTime + 1; return p },
	}
	for name, change := range tests {
		if m, err := New(change(slices.Clone(ok))); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	falling := Model{Points: []Point{{Size: 0, Gap: 2}, {Size: 1, Gap: 1}}}
	if err := falling.Check(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a gap that falls: %v", err)
	}
}

func TestSimplify(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := mustNew(t, random(rng))
		tolerance := rng.Float64() / 2
		s := m.Simplify(tolerance)
		if err := s.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		last := m.Points[len(m.Points)-1]
		if s.Points[0] != m.Points[0] || s.Points[len(s.Points)-1] != last {
			t.Fatalf("seed %d: the ends of %v are not those of %v", seed, s, m)
		}
		for _, p := range append(slices.Clone(m.Points), m.At(2*last.Size)) {
			if got := s.At(p.Size); !alike(got, p, tolerance) {
				t.Fatalf("seed %d: %+v, want %+v within %.2f", seed, got, p, tolerance)
			}
		}
		if exact := m.Simplify(0); len(exact.Points) < len(s.Points) {
			t.Fatalf("seed %d: %d points for a tolerance of %.2f, %d for none", seed, len(s.Points), tolerance, len(exact.Points))
		}
	}
	// A line with one bend is three points, and no subset of fewer would do.
	var bent []Point
	for i := range 12 {
		size := int64(1) << i
		bent = append(bent, Point{Size: size, Gap: max(time.Duration(size)*time.Microsecond, 64*time.Microsecond)})
	}
	if got := mustNew(t, bent).Simplify(0.01); len(got.Points) != 3 || got.Points[1].Size != 64 {
		t.Errorf("a line with a bend at 64 bytes is %v", got)
	}
}
