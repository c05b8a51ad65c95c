package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var oneSecond = limits{time.Second, 1e9}

func TestClimb(t *testing.T) {
	for _, c := range []struct {
		name        string
		nanoseconds func(n float64) float64
		bytes       func(n float64) float64
		measured    int    // the largest size
		left        string // the beginning
	}{
		{"all", func(n float64) float64 { return n * n }, func(n float64) float64 { return n * n }, 1024, ""},
		{"time", func(n float64) float64 { return 100 * n * n * n }, func(n float64) float64 { return n }, 128, "n ≥ 256: about 1.68 s"},
		{"memory", func(n float64) float64 { return n }, func(n float64) float64 { return 1e4 * n * n }, 256, "n ≥ 512: about 2.62 GB"},
	} {
		points, left, err := climb(sizes, oneSecond, func(n, count int) (point, error) {
			x := float64(n)
			p := point{n: n, seconds: c.nanoseconds(x) / 1e9, bytes: c.bytes(x)}
			if p.seconds > 1 || p.bytes > 1e9 {
				t.Errorf("%s: n=%d was run", c.name, n)
			}
			if long := p.seconds > repeatTime/2.0; count > repeats || count < 1 || long != (count == 1) {
				t.Errorf("%s: %d runs of %v s", c.name, count, p.seconds)
			}
			return p, nil
		})
		if err != nil || points[len(points)-1].n != c.measured || !strings.HasPrefix(left, c.left) || (left == "") != (c.left == "") {
			t.Errorf("%s: ends at %v with %q, %v; want n=%d and %q", c.name, points[len(points)-1], left, err, c.measured, c.left)
		}
	}
}

func TestClimbStops(t *testing.T) {
	points, left, err := climb(sizes, oneSecond, func(n, _ int) (point, error) {
		if n == 64 {
			return point{}, fmt.Errorf("%w after 1 h", errStopped)
		}
		return point{n: n, seconds: 1e-3}, nil
	})
	if err != nil || len(points) != 3 || left != "n ≥ 64: stopped after 1 h" {
		t.Errorf("%v, %q, %v", points, left, err)
	}
	points, left, err = climb(sizes, oneSecond, func(n, _ int) (point, error) {
		if n == 1024 {
			return point{}, fmt.Errorf("benchmark: %w", refusal("too many"))
		}
		return point{n: n, seconds: 1e-3}, nil
	})
	if err != nil || len(points) != 7 || left != "n ≥ 1024: refused: too many" {
		t.Errorf("%v, %q, %v", points, left, err)
	}
	if _, _, err := climb(sizes, oneSecond, func(int, int) (point, error) { return point{}, errStopped }); !errors.Is(err, errStopped) {
		t.Errorf("a series without a single point: %v", err)
	}
	broken := errors.New("broken")
	if _, _, err := climb(sizes, oneSecond, func(int, int) (point, error) { return point{}, broken }); !errors.Is(err, broken) {
		t.Errorf("a failure of the benchmark is %v", err)
	}
}

func TestRefusalLine(t *testing.T) {
	m := refusalLine.FindStringSubmatch("cpu: x\n--- FAIL: BenchmarkCost/a/b/n=8\n    bench_test.go:51: aapc: too many\nFAIL\n")
	if m == nil || m[1] != "aapc: too many" {
		t.Errorf("%q", m)
	}
	if m := refusalLine.FindStringSubmatch("panic: x\n\t/src/internal/schedcost/bench_test.go:51 +0x1d\n"); m != nil {
		t.Errorf("a panic is taken for a refusal: %q", m)
	}
}

// Every series has a name of its own that survives go test -bench, and runs at the least size
// and at one that is no multiple of a rack.
func TestSeries(t *testing.T) {
	all, err := allSeries()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.path()] || strings.ContainsAny(s.name, "/ \t") {
			t.Errorf("name %q", s.path())
		}
		seen[s.path()] = true
		for _, n := range []int{sizes[0], 34} {
			once, err := s.prepare(n)
			if err != nil {
				t.Errorf("%s, n=%d: %v", s.path(), n, err)
				continue
			}
			if made, err := once(); err != nil || (made == 0) != (s.name == "pools") {
				t.Errorf("%s, n=%d: %d transfers, %v", s.path(), n, made, err)
			}
		}
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == s.group }) {
			t.Errorf("%s is in no group of the page", s.path())
		}
	}
	for _, b := range bounds {
		if !seen[b.series] {
			t.Errorf("the papers' bound is of %s, which is no series", b.series)
		}
	}
}
