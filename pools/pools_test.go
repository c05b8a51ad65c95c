package pools

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

// paperGrid is the 3-site grid of Gupta & Vadhiyar, Tables 1 and 2.
func paperGrid() *netmap.Snapshot {
	sites := []struct {
		name  string
		hosts int
	}{{"UT", 8}, {"UK", 4}, {"NTH", 8}}
	table := [3][3]float64{{85.19, 1.44, 1.25}, {1.28, 289.33, 4.75}, {1.16, 4.75, 81.86}}
	var hosts []netmap.Host
	var at []int
	for i, s := range sites {
		for k := range s.hosts {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("%s%d", strings.ToLower(s.name), k), Site: s.name})
			at = append(at, i)
		}
	}
	return snapshot(hosts, func(i, j int) float64 { return table[at[i]][at[j]] })
}

// snapshot returns a grid with the bandwidths mbps(from, to) in Mbit/s.
func snapshot(hosts []netmap.Host, mbps func(i, j int) float64) *netmap.Snapshot {
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			if i != j {
				est[i*n+j] = netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.BytesPerSec(mbps(i, j)) * netmap.Mbps}
			}
		}
	}
	return netmap.NewSnapshot(1, hosts, est)
}

// randomGrid has hosts in nested clusters whose links differ by noise, one-way narrow
// links among them, and names in no order.
func randomGrid(rng *rand.Rand, n int) *netmap.Snapshot {
	hosts := make([]netmap.Host, n)
	names := rng.Perm(n)
	site := make([]int, n)
	region := make([]int, n)
	for i := range hosts {
		site[i] = rng.IntN(1 + n/3)
		region[i] = site[i] % 2
		hosts[i] = netmap.Host{Name: fmt.Sprintf("h%03d", names[i]), Site: fmt.Sprint("s", site[i])}
	}
	noise := rng.Float64() * 0.3
	exact := rng.IntN(3) == 0
	return snapshot(hosts, func(i, j int) float64 {
		v := 1.0
		switch {
		case site[i] == site[j]:
			v = 100
		case region[i] == region[j]:
			v = 10
		}
		if exact {
			return v
		}
		return v * (1 + noise*rng.Float64())
	})
}

// The thresholds and the tree of the paper's grid, with the corrections that doc.go names.
func TestPaperGrid(t *testing.T) {
	s := paperGrid()
	tree, err := Build(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var lows, tops []float64
	for _, th := range tree.Thresholds {
		lows, tops = append(lows, inMbps(th.Low)), append(tops, inMbps(th.High))
	}
	if want := []float64{1.25, 1.28, 1.44, 4.75, 85.19, 289.33}; !slices.Equal(tops, want) {
		t.Errorf("thresholds %v, want %v", tops, want)
	}
	if want := []float64{1.16, 1.28, 1.44, 4.75, 81.86, 289.33}; !slices.Equal(lows, want) {
		t.Errorf("low ends %v, want %v", lows, want)
	}
	want := `UT+UK+NTH · 20 hosts · 1.28 Mbit/s
├── UT · 8 hosts · 85.19 Mbit/s
└── UK+NTH · 12 hosts · 4.75 Mbit/s
    ├── UK · 4 hosts · 289.3 Mbit/s
    └── NTH · 8 hosts · 85.19 Mbit/s
`
	if got := tree.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}

	ut, uk, nth := span(0, 8), span(8, 12), span(12, 20)
	if got, want := tree.Leaves(), [][]int{ut, uk, nth}; !reflect.DeepEqual(got, want) {
		t.Errorf("leaves %v, want %v", got, want)
	}
	if got, want := tree.Sets(), [][]int{ut, span(8, 20), uk, nth}; !reflect.DeepEqual(got, want) {
		t.Errorf("sets %v, want %v", got, want)
	}
}

// By the paper's own words the local links dominate, and {UK, NTH} never appears.
func TestPaperGridByAverageIsFlat(t *testing.T) {
	tree, err := Build(paperGrid(), Config{Criterion: Average})
	if err != nil {
		t.Fatal(err)
	}
	want := `UT+UK+NTH · 20 hosts · 4.75 Mbit/s
├── UT · 8 hosts · 85.19 Mbit/s
├── UK · 4 hosts · 289.3 Mbit/s
└── NTH · 8 hosts · 85.19 Mbit/s
`
	if got := tree.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func span(from, to int) []int {
	var s []int
	for i := from; i < to; i++ {
		s = append(s, i)
	}
	return s
}

// Single hosts split off beside larger parts are pools of one host; a split into nothing
// but single hosts is no level.
func TestSingleHostPools(t *testing.T) {
	hosts := []netmap.Host{{Name: "a", Site: "X"}, {Name: "b", Site: "X"}, {Name: "c", Site: "X"}, {Name: "d", Site: "Y"}}
	slow := func(i, j, k int) bool { return i == k || j == k }
	tree, err := Build(snapshot(hosts, func(i, j int) float64 {
		switch {
		case slow(i, j, 3):
			return 1
		case slow(i, j, 2):
			return 10
		}
		return 100
	}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := `X+Y · 4 hosts · 1 Mbit/s
├── X · 3 hosts · 10 Mbit/s
│   ├── X (2 of 3) · 2 hosts · 100 Mbit/s
│   └── X c · 1 host · 100 Mbit/s
└── Y · 1 host · 10 Mbit/s
`
	if got := tree.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	even, err := Build(snapshot(hosts, func(i, j int) float64 { return float64(10 * (1 + (i+j)%2)) }), Config{Criterion: Average, Band: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if err := even.Check(4); err != nil {
		t.Error(err)
	}
}

func TestSmallGrids(t *testing.T) {
	one, two := []netmap.Host{{Name: "a"}}, []netmap.Host{{Name: "a"}, {Name: "b"}}
	for _, c := range []Criterion{Component, Average} {
		tree, err := Build(snapshot(one, nil), Config{Criterion: c})
		if err != nil || len(tree.Thresholds) != 0 || tree.String() != "a · 1 host\n" || len(tree.Sets()) != 0 {
			t.Errorf("%s, one host: %v, %v", c, tree, err)
		}
		tree, err = Build(snapshot(two, func(i, j int) float64 { return float64(1 + 9*i) }), Config{Criterion: c})
		if err != nil || tree.String() != "a…b · 2 hosts · 1 Mbit/s\n" || len(tree.Thresholds) != 2 {
			t.Errorf("%s, two hosts: %v, %v", c, tree, err)
		}
	}
	if _, err := Build(netmap.NewSnapshot(0, nil, nil), Config{}); !errors.Is(err, ErrNoHosts) {
		t.Errorf("no hosts: %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	hosts := []netmap.Host{{Name: "a"}, {Name: "b"}}
	gap := netmap.NewSnapshot(0, hosts, make([]netmap.Estimate, 4))
	if _, err := Build(gap, Config{}); !errors.Is(err, netmap.ErrNotMeasured) || !strings.Contains(err.Error(), "a→b") {
		t.Errorf("got %v, want ErrNotMeasured that names a→b", err)
	}
	if _, err := Build(snapshot(hosts, func(i, j int) float64 { return math.NaN() }), Config{}); err == nil {
		t.Error("NaN was taken for a bandwidth")
	}
	for _, cfg := range []Config{{Criterion: "median"}, {Band: -0.1}, {Band: 2}, {Band: math.NaN()}} {
		if _, err := Build(paperGrid(), cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestThresholdBands(t *testing.T) {
	hosts := make([]netmap.Host, 4)
	values := []float64{100, 110, 110.1, 121.2, 50, 55.0001, 54.9, 50, 100, 100, 100, 100}
	next := 0
	s := snapshot(hosts, func(i, j int) float64 { next++; return values[next-1] })
	for _, tt := range []struct {
		band float64
		want string
	}{
		{0.10, "50-54.9 55.0001-55.0001 100-110 110.1-110.1 121.2-121.2"},
		{0.11, "50-55.0001 100-110.1 121.2-121.2"},
		{0, "50-50 54.9-54.9 55.0001-55.0001 100-100 110-110 110.1-110.1 121.2-121.2"},
	} {
		var got []string
		for _, th := range Thresholds(s, tt.band) {
			got = append(got, fmt.Sprintf("%v-%v", inMbps(th.Low), inMbps(th.High)))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("band %v: %v, want %s", tt.band, got, tt.want)
		}
	}
}

// 2.412 is 2.01 and 20 %, but in binary 2.01·1.2 rounds to less.
func TestBandEdgeIsNotLeftToRounding(t *testing.T) {
	s := snapshot(make([]netmap.Host, 2), func(i, j int) float64 { return []float64{2.01, 2.412}[i] })
	if bands := Thresholds(s, 0.2); len(bands) != 1 {
		t.Errorf("got %v, want one band", bands)
	}
}

// poolsByDefinition lists the pools that a component tree must have, straight from the
// definition: flood fill at every threshold.
func poolsByDefinition(s *netmap.Snapshot, bands []Threshold) map[string]netmap.BytesPerSec {
	n := s.N()
	pools := map[string]netmap.BytesPerSec{fmt.Sprint(span(0, n)): 0}
	for k, th := range bands {
		seen := make([]bool, n)
		for i := range n {
			if seen[i] {
				continue
			}
			seen[i] = true
			set := []int{i}
			for q := 0; q < len(set); q++ {
				for j := range n {
					out, _ := s.Bandwidth(set[q], j)
					back, _ := s.Bandwidth(j, set[q])
					if !seen[j] && out >= th.Low && back >= th.Low {
						seen[j] = true
						set = append(set, j)
					}
				}
			}
			slices.Sort(set)
			if len(set) > 1 || n == 1 {
				pools[fmt.Sprint(set)] = th.High
				continue
			}
			// Alone for the first time, and not everyone of the pool before is alone too?
			before := lastPoolWith(s, bands, k, i)
			if before == nil {
				continue
			}
			for _, h := range before {
				if !alone(s, h, th.Low, before) {
					pools[fmt.Sprint(set)] = th.High
					break
				}
			}
		}
	}
	return pools
}

// lastPoolWith returns the hosts with whom i was together at the threshold before k, nil if
// it was alone then.
func lastPoolWith(s *netmap.Snapshot, bands []Threshold, k, i int) []int {
	if k == 0 {
		return span(0, s.N())
	}
	in := map[int]bool{i: true}
	for grown := true; grown; {
		grown = false
		for a := range s.N() {
			for b := range s.N() {
				out, _ := s.Bandwidth(a, b)
				back, _ := s.Bandwidth(b, a)
				if in[a] && !in[b] && min(out, back) >= bands[k-1].Low && a != b {
					in[b], grown = true, true
				}
			}
		}
	}
	if len(in) == 1 {
		return nil
	}
	var set []int
	for h := range in {
		set = append(set, h)
	}
	return set
}

func alone(s *netmap.Snapshot, h int, low netmap.BytesPerSec, among []int) bool {
	for _, o := range among {
		out, _ := s.Bandwidth(h, o)
		back, _ := s.Bandwidth(o, h)
		if o != h && min(out, back) >= low {
			return false
		}
	}
	return true
}

func TestComponentsAgreeWithTheDefinition(t *testing.T) {
	levels := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := randomGrid(rng, 2+rng.IntN(14))
		tree, err := Build(s, Config{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := tree.Check(s.N()); err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, tree)
		}
		got := map[string]netmap.BytesPerSec{}
		tree.Walk(func(p *Pool, depth int) bool {
			got[fmt.Sprint(p.Hosts)] = p.Threshold
			levels = max(levels, depth)
			return true
		})
		if want := poolsByDefinition(s, tree.Thresholds); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: pools %v\nwant %v\n%v", seed, got, want, tree)
		}
	}
	if levels < 3 {
		t.Errorf("no tree was deeper than %d: the test tries too little", levels)
	}
}

// Every pool of several hosts meets the paper's condition at the band that it names, and a
// child's band lies above its parent's.
func TestAveragePoolsMeetTheCondition(t *testing.T) {
	deep := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 8))
		s := randomGrid(rng, 2+rng.IntN(14))
		tree, err := Build(s, Config{Criterion: Average})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := tree.Check(s.N()); err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, tree)
		}
		tree.Walk(func(p *Pool, depth int) bool {
			deep = max(deep, depth)
			k := slices.IndexFunc(tree.Thresholds, func(th Threshold) bool { return th.High == p.Threshold })
			if k < 0 {
				t.Fatalf("seed %d: %v Mbit/s is no threshold", seed, p.Threshold.Mbps())
			}
			for _, c := range p.Children {
				if c.Threshold <= p.Threshold {
					t.Fatalf("seed %d: child at %v under %v\n%v", seed, c.Threshold, p.Threshold, tree)
				}
			}
			for _, h := range p.Hosts {
				var sum netmap.BytesPerSec
				for _, o := range p.Hosts {
					if b, _ := s.Bandwidth(h, o); o != h {
						sum += b
					}
				}
				if mean := sum / netmap.BytesPerSec(len(p.Hosts)-1); len(p.Hosts) > 1 && mean < tree.Thresholds[k].Low*(1-1e-6) {
					t.Fatalf("seed %d: host %d of %v has a mean of %v", seed, h, p.Hosts, mean.Mbps())
				}
			}
			return true
		})
	}
	if deep < 1 {
		t.Error("no tree had a level: the test tries too little")
	}
}

// The tree does not depend on the order of the hosts.
func TestOrderOfHostsDoesNotMatter(t *testing.T) {
	for _, criterion := range []Criterion{Component, Average} {
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 9))
			s := randomGrid(rng, 1+rng.IntN(16))
			switch {
			case seed == 0:
				s = paperGrid()
			case seed%2 == 1: // ties without any structure
				values := make([]float64, s.N()*s.N())
				for i := range values {
					values[i] = float64(1 + rng.IntN(3))
				}
				s = snapshot(s.Hosts(), func(i, j int) float64 { return values[i*s.N()+j] })
			}
			cfg := Config{Criterion: criterion}
			a, err := Build(s, cfg)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			b, err := Build(s.Subset(rng.Perm(s.N())), cfg)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if x, y := byName(a), byName(b); !slices.Equal(x, y) {
				t.Fatalf("%s, seed %d:\n%v\n%v", criterion, seed, strings.Join(x, "\n"), strings.Join(y, "\n"))
			}
		}
	}
}

// byName lists the pools by the names of their hosts.
func byName(t *Tree) []string {
	var lines []string
	t.Walk(func(p *Pool, depth int) bool {
		var names []string
		for _, h := range p.Hosts {
			names = append(names, t.Hosts[h].Name)
		}
		slices.Sort(names)
		lines = append(lines, fmt.Sprint(depth, p.Threshold, names))
		return true
	})
	slices.Sort(lines)
	return lines
}

func BenchmarkBuild(b *testing.B) {
	for _, c := range []Criterion{Component, Average} {
		for _, n := range []int{16, 64, 256} {
			b.Run(fmt.Sprintf("%s/n=%d", c, n), func(b *testing.B) {
				s := randomGrid(rand.New(rand.NewPCG(1, 10)), n)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Build(s, Config{Criterion: c}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
