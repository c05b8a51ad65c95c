package gantt

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestConcurrency(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spans []Span
		want  []Step
	}{
		{"none", nil, nil},
		{"one", []Span{{1, 2}}, []Step{{1, 1}, {2, 0}}},
		{"two that overlap", []Span{{0, 2}, {1, 3}}, []Step{{0, 1}, {1, 2}, {2, 1}, {3, 0}}},
		{"two that touch", []Span{{0, 1}, {1, 2}}, []Step{{0, 1}, {2, 0}}},
		{"an overlap of rounding", []Span{{0, 1 + 1e-12}, {1, 2}}, []Step{{0, 1}, {2, 0}}},
		{"a gap of rounding", []Span{{0, 1}, {1 + 1e-12, 2}}, []Step{{0, 1}, {2, 0}}},
		{
			"an overlap of rounding just after a step",
			[]Span{{0, 2}, {0.5, 1 + 6e-9}, {1, 2}, {1 + 4e-9, 2}}, []Step{{0, 1}, {0.5, 2}, {1, 3}, {2, 0}},
		},
		{"a real gap", []Span{{0, 1}, {1.5, 2}}, []Step{{0, 1}, {1, 0}, {1.5, 1}, {2, 0}}},
		{"no length", []Span{{1, 1}}, nil},
	} {
		if got := Concurrency(tt.spans); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Against a plain count at the middle of every step.
func TestConcurrencyCounts(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var spans []Span
		for range rng.IntN(40) {
			start := float64(rng.IntN(20))
			spans = append(spans, Span{start, start + float64(rng.IntN(6))})
		}
		steps := Concurrency(spans)
		for i, s := range steps {
			if i+1 == len(steps) {
				if s.Count != 0 {
					t.Fatalf("seed %d: ends with %v", seed, s)
				}
				break
			}
			middle, want := (s.At+steps[i+1].At)/2, 0
			for _, span := range spans {
				if span.Start <= middle && middle < span.End {
					want++
				}
			}
			if s.Count != want || steps[i+1].At <= s.At {
				t.Fatalf("seed %d: step %d of %v, want %d at %v", seed, i, steps, want, middle)
			}
		}
		a := axis{left: 0, right: 100, span: 30}
		if few := thin(steps, a); peak(few) != peak(steps) || len(few) > 3*201 {
			t.Fatalf("seed %d: thinned to %v from %v", seed, few, steps)
		}
	}
}

func TestWAN(t *testing.T) {
	total, links, err := three(t).WAN()
	if err != nil {
		t.Fatal(err)
	}
	if want := []Step{{0, 2}, {2, 0}}; !slices.Equal(total, want) {
		t.Errorf("total %v, want %v", total, want)
	}
	if len(links) != 2 || links[0].From != 0 || links[0].To != 1 || links[0].Bytes != 128<<10 ||
		!slices.Equal(links[1].Steps, []Step{{0, 1}, {2, 0}}) {
		t.Errorf("links %+v", links)
	}
}

// Lanes hold every transfer once, none overlaps another in its lane, and there are no
// more lanes than transfers at a time.
func TestPack(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var spans []Span
		var all []int
		for i := range rng.IntN(200) {
			start := float64(rng.IntN(1000))
			spans, all = append(spans, Span{start, start + 1 + float64(rng.IntN(60))}), append(all, i)
		}
		b := pack(spans, all)
		var seen []int
		for _, lane := range b.lanes {
			for k, one := range lane {
				seen = append(seen, one.transfer)
				if k > 0 && lane[k-1].End > one.Start {
					t.Fatalf("seed %d: %v overlaps %v", seed, lane[k-1], one)
				}
			}
		}
		if slices.Sort(seen); !slices.Equal(seen, all) {
			t.Fatalf("seed %d: %v of %d transfers", seed, seen, len(all))
		}
		if most := peak(Concurrency(spans)); len(b.lanes) != most {
			t.Fatalf("seed %d: %d lanes for %d at a time", seed, len(b.lanes), most)
		}
		grain := 100 * rng.Float64()
		joined := 0
		for _, lane := range b.limit(maxLanes, grain, func(i int) string { return poolClass(i % 2) }).lanes {
			for k, one := range lane {
				joined += one.count
				if one.count == 1 && one.class != poolClass(one.transfer%2) {
					t.Fatalf("seed %d: %+v has lost its looks", seed, one)
				}
				if k > 0 && lane[k-1].End > one.Start {
					t.Fatalf("seed %d: joined %v overlaps %v", seed, lane[k-1], one)
				}
			}
		}
		if joined != len(all) {
			t.Fatalf("seed %d: %d transfers after joining, want %d", seed, joined, len(all))
		}
	}
	// Nothing that takes no time hides behind another.
	if b := pack(slices.Repeat([]Span{{1, 1}}, 5), []int{0, 1, 2, 3, 4}); len(b.lanes) != 5 {
		t.Errorf("%d lanes for five transfers at one instant", len(b.lanes))
	}
	if b := pack(slices.Repeat([]Span{{1, 2}}, maxLanes+1), make([]int, maxLanes+1)); !b.crowded {
		t.Errorf("%d transfers at a time are not crowded", maxLanes+1)
	}
}

func TestTicks(t *testing.T) {
	for span := 1e-9; span < 2e9; span *= 1.37 {
		a := axis{left: 100, right: 1250, span: span}
		ticks, unit := a.ticks(80)
		if len(ticks) < 3 || len(ticks) > 16 {
			t.Errorf("%g s: %d ticks in %s", span, len(ticks), unit)
		}
		for i, tick := range ticks {
			if i > 0 && (tick.label == ticks[i-1].label || a.x(tick.seconds)-a.x(ticks[i-1].seconds) < 79) {
				t.Errorf("%g s: ticks %v and %v", span, ticks[i-1], tick)
			}
			if len(tick.label) > 6 {
				t.Errorf("%g s: label %q", span, tick.label)
			}
		}
	}
	for most := 1; most < 5000; most++ {
		if n := len(countTicks(most, smallPanel)); n < 1 || n > 3 {
			t.Fatalf("%d counts of %d", n, most)
		}
	}
}

func TestFormat(t *testing.T) {
	for s, want := range map[float64]string{0: "0 s", 1.5: "1.5 s", 0.0501: "50.1 ms", 2e-6: "2 µs", 3e-9: "3 ns", 12345.678: "3.429 h", 700: "11.67 min"} {
		if got := formatSeconds(s, 4); got != want {
			t.Errorf("%v s: %q, want %q", s, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 64 << 10: "64 KiB", 3 << 19: "1.5 MiB", math.MaxInt64: "8 EiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	const domain = ".cluster.science.example.org"
	got := shorten([]string{"rack-node1" + domain, "rack-node10" + domain, "rack-node2" + domain}, 120)
	if want := []string{"…node1…", "…node10…", "…node2…"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		names := make([]string, 1+rng.IntN(4))
		for i := range names {
			for range rng.IntN(30) {
				names[i] += string([]rune("ab.-é東")[rng.IntN(6)])
			}
		}
		width := 20 + 150*rng.Float64()
		for i, s := range shorten(names, width) {
			if textWidth(s, fontSize) > width {
				t.Fatalf("seed %d: %q of %q is wider than %v", seed, s, names[i], width)
			}
			if textWidth(names[i], fontSize) <= width && !strings.Contains(s, "…") && s != names[i] {
				t.Fatalf("seed %d: %q became %q", seed, names[i], s)
			}
		}
	}
}
