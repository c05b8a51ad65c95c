package random

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// TestDraw checks for many seeds that a grid is within its limits, that it is the same again, and that its file says the same.
func TestDraw(t *testing.T) {
	for name, l := range map[string]Limits{"wide": Wide, "slow": Slow} {
		odd, certain := 0, 0
		for seed := range uint64(200) {
			g := Draw(seed, l)
			if again := Draw(seed, l); !reflect.DeepEqual(g, again) {
				t.Fatalf("%s, seed %d: %v, and then %v", name, seed, g, again)
			}
			g.within(t, name, seed, l)
			for _, w := range []*Grid{g, g.After()} {
				read, err := gridfile.Parse("drawn", []byte(w.YAML()))
				if err != nil {
					t.Fatalf("%s, seed %d: %v\n%s", name, seed, err, w.YAML())
				}
				if !reflect.DeepEqual(read.Sites, w.File.Sites) || !alike(read.WAN, w.File.WAN) {
					t.Errorf("%s, seed %d: the file says\n%+v\nof\n%+v", name, seed, read, w.File)
				}
			}
			if g.Certain() {
				certain++
			}
			if strings.Contains(g.YAML(), "queue") {
				odd++
			}
		}
		// Most grids must be judged by what is known for sure, and some must be odd.
		if certain < 120 || odd < 20 || odd > 120 {
			t.Errorf("%s: of 200 grids %d have a change that is certain, %d a queue of its own", name, certain, odd)
		}
	}
}

// within checks g against the limits that it was drawn from.
func (g *Grid) within(t *testing.T, name string, seed uint64, l Limits) {
	t.Helper()
	hosts := len(g.File.Hosts())
	if n := len(g.File.Sites); n < 2 || n > l.Sites || hosts > l.All || len(g.Starts) != hosts || len(g.Cross) != len(g.File.WAN) || len(g.File.WAN) != n*(n-1) {
		t.Errorf("%s, seed %d: %d sites, %d hosts, %d starts, %d links", name, seed, n, hosts, len(g.Starts), len(g.File.WAN))
	}
	var start time.Duration
	for _, s := range g.Starts {
		start += s
	}
	if start > l.Start {
		t.Errorf("%s, seed %d: the last host starts after %v", name, seed, start)
	}
	for i, k := range g.File.WAN {
		back := g.File.WAN[g.back(i)]
		if back.From != k.To || back.To != k.From {
			t.Errorf("%s, seed %d: %s is not the way back of %s", name, seed, g.Name(g.back(i)), g.Name(i))
		}
		const over = 1 + 1e-6 // rates are whole bits
		if k.Bandwidth*over < mbps(l.Rate.Least) || k.Capacity > mbps(l.Rate.Most)*over || k.Loss > l.Loss.Most || k.Latency > millis(l.Lag.Most) {
			t.Errorf("%s, seed %d: %s is %s", name, seed, g.Name(i), g.Describe(i))
		}
		if rate, exact := g.Flow(i); !(rate > 0) || exact && rate > g.Carries(i)*over {
			t.Errorf("%s, seed %d: a flow gets %v of %s, which carries %v", name, seed, rate, g.Name(i), g.Carries(i))
		}
	}
}

// alike compares links; the file rounds losses and rates to what it prints.
func alike(a, b []gridfile.Link) bool {
	if len(a) != len(b) {
		return false
	}
	near := func(x, y float64) bool { return x-y < 1e-3*y+1e-9 && y-x < 1e-3*y+1e-9 }
	for i := range a {
		x, y := a[i], b[i]
		if x.From != y.From || x.To != y.To || x.Latency != y.Latency || x.Jitter != y.Jitter || x.Queue != y.Queue ||
			!near(float64(x.Bandwidth), float64(y.Bandwidth)) || !near(float64(x.Capacity), float64(y.Capacity)) || !near(x.Loss, y.Loss) {
			return false
		}
	}
	return true
}

func TestFlowOfAChange(t *testing.T) {
	for seed := range uint64(200) {
		g := Draw(seed, Wide)
		after := g.After()
		for i := range g.File.WAN {
			was, _ := g.Flow(i)
			is, _ := after.Flow(i)
			if !g.Touches(i) && (was != is || g.RoundTrip(i) != after.RoundTrip(i)) {
				t.Errorf("seed %d: %v changes %s, which it does not touch", seed, g.Change, g.Name(i))
			}
		}
		if !g.Certain() {
			continue
		}
		for _, i := range g.Change.Links {
			was, _ := g.Flow(i)
			is, _ := after.Flow(i)
			if seen := is < 0.7*was || is > 1.4*was || after.RoundTrip(i) >= g.RoundTrip(i)+5*time.Millisecond; !seen {
				t.Errorf("seed %d: %v of %s cannot be seen: %v and %v, %v and %v", seed, g.Change, g.Name(i), was, is, g.RoundTrip(i), after.RoundTrip(i))
			}
		}
	}
}
