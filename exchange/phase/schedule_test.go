package phase

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// checkPhases examines p with nothing but the tree: each message once, in as many phases as
// cross the most loaded link, and no arc twice in a phase.
func checkPhases(w tree, paths [][][]arc, p *plan.Plan) error {
	n := len(w.home)
	if want := w.load(paths); p.Phases != want {
		return fmt.Errorf("%d phases, the load is %d", p.Phases, want)
	}
	if len(p.Transfers) != n*(n-1) {
		return fmt.Errorf("%d transfers for %d messages", len(p.Transfers), n*(n-1))
	}
	type slot struct {
		phase int
		arc   arc
	}
	used := make(map[slot]int)
	seen := make(map[[2]int]bool)
	for i, x := range p.Transfers {
		if x.Phase < 0 || x.Phase >= p.Phases {
			return fmt.Errorf("transfer %d in phase %d", i, x.Phase)
		}
		if seen[[2]int{x.Src, x.Dst}] || x.Src == x.Dst {
			return fmt.Errorf("%d→%d again", x.Src, x.Dst)
		}
		seen[[2]int{x.Src, x.Dst}] = true
		for _, a := range paths[x.Src][x.Dst] {
			if j, ok := used[slot{x.Phase, a}]; ok {
				return fmt.Errorf("phase %d: transfers %d and %d use %v", x.Phase, i, j, a)
			}
			used[slot{x.Phase, a}] = i
		}
	}
	return nil
}

func mustSchedule(t testing.TB, w tree, opt Options) *plan.Plan {
	t.Helper()
	p, err := Schedule(w.topology(t), plan.AlltoallSizes{Uniform: 1000}, opt)
	if err != nil {
		t.Fatalf("%v %+v: %v", w, opt, err)
	}
	return p
}

func TestScheduleOnAllSmallTrees(t *testing.T) {
	most := []int{0, 10, 8, 7, 6, 5, 5} // machines, by number of switches
	tried := 0
	for switches := 1; switches < len(most); switches++ {
		smallTrees(switches, most[switches], func(w tree) {
			tried++
			if t.Failed() {
				return
			}
			if err := checkPhases(w, w.paths(), mustSchedule(t, w, Options{})); err != nil {
				t.Errorf("%v: %v", w, err)
			}
		})
	}
	t.Logf("%d trees", tried)
}

func TestScheduleOnRandomTrees(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		machines := 20
		if seed%50 == 0 {
			machines = 64
		}
		w := randomTree(rng, 12, machines)
		topo := w.topology(t)
		p, err := Schedule(topo, plan.AlltoallSizes{Uniform: 1 << 20}, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v: %v", seed, w, err)
		}
		if err := checkPhases(w, w.paths(), p); err != nil {
			t.Fatalf("seed %d: %v: %v", seed, w, err)
		}
		if err := plan.Verify(p, plan.Rules{Topology: topo}); err != nil {
			t.Fatalf("seed %d: %v: %v", seed, w, err)
		}
		if a := Analyze(topo); a.Phases != p.Phases || Load(topo) != p.Phases {
			t.Fatalf("seed %d: %v: analysis says %d phases, load %d, the plan has %d", seed, w, a.Phases, Load(topo), p.Phases)
		}
	}
}

// Subtrees under one root with sizes that catch wrong moduli and wrong orders, roots with
// machines of their own, and branches without any.
func TestScheduleOnSubtreeSizes(t *testing.T) {
	for _, sizes := range [][]int{
		{1}, {2}, {1, 1}, {2, 2}, {3, 3}, {5, 5}, {1, 1, 1}, {2, 1, 2}, {1, 2, 2}, {3, 2, 1}, {4, 3, 1}, {3, 2, 2, 1},
		{3, 0, 2, 0, 1}, {0, 0, 1, 0}, {6, 4, 2}, {6, 4, 4, 3, 2, 1}, {7, 5, 3}, {2, 3, 4, 5, 6}, {1, 1, 1, 1, 9}, {13, 8, 5},
	} {
		for own := range 3 {
			w := tree{switches: 1 + len(sizes)}
			for i, size := range sizes {
				w.links = append(w.links, [2]int{0, i + 1})
				for range size {
					w.home = append(w.home, i+1)
				}
			}
			for range own {
				w.home = append(w.home, 0)
			}
			if err := checkPhases(w, w.paths(), mustSchedule(t, w, Options{})); err != nil {
				t.Errorf("sizes %v and %d machines on the root: %v", sizes, own, err)
			}
		}
	}
}

func TestOneSwitchTakesNMinus1Phases(t *testing.T) {
	for n := 1; n <= 17; n++ {
		w := tree{switches: 1, home: make([]int, n)}
		if p := mustSchedule(t, w, Options{}); p.Phases != n-1 {
			t.Errorf("%d machines: %d phases", n, p.Phases)
		}
	}
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    tree
		want int
	}{
		{"one machine", tree{switches: 1, home: []int{0}}, 0},
		{"two machines, far apart", tree{switches: 3, links: [][2]int{{0, 1}, {2, 1}}, home: []int{0, 2}}, 1},
		{"one switch", tree{switches: 1, home: make([]int, 24)}, 23},
		{"even split", tree{switches: 2, links: [][2]int{{0, 1}}, home: []int{0, 0, 0, 1, 1, 1}}, 9},
		{"uneven split", tree{switches: 2, links: [][2]int{{0, 1}}, home: []int{0, 0, 0, 0, 1, 1}}, 8},
		{"chain", tree{switches: 4, links: [][2]int{{0, 1}, {1, 2}, {2, 3}}, home: []int{0, 0, 1, 1, 2, 2, 3, 3}}, 16},
		{"star", tree{switches: 4, links: [][2]int{{0, 1}, {0, 2}, {0, 3}}, home: []int{0, 0, 1, 1, 2, 2, 3, 3}}, 12},
	} {
		topo := tt.w.topology(t)
		if got := Load(topo); got != tt.want {
			t.Errorf("%s: load %d, want %d", tt.name, got, tt.want)
		}
		if got := Analyze(topo).Phases; got != tt.want {
			t.Errorf("%s: %d phases, want %d", tt.name, got, tt.want)
		}
	}
}

// The root keeps the two conditions of §4 (a bottleneck link, no subtree with more than
// half of the machines), and does not depend on the numbers of switches and cables.
func TestRoot(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		w := randomTree(rng, 9, 14)
		topo := w.topology(t)
		a := Analyze(topo)
		total, largest := 0, 0
		for i, s := range a.Subtrees {
			total += len(s)
			largest = max(largest, len(s))
			if i > 0 && len(s) > len(a.Subtrees[i-1]) {
				t.Fatalf("seed %d: %v: subtrees %v", seed, w, a.Subtrees)
			}
		}
		n := len(w.home)
		if total != n || n > 1 && 2*largest > n || n > 2 && len(a.Subtrees) < 3 {
			t.Fatalf("seed %d: %v: root %d with %v", seed, w, a.Root, a.Subtrees)
		}
		if want := w.load(w.paths()); largest*(n-largest) != want {
			t.Fatalf("seed %d: %v: root %d with %v is not at a bottleneck of load %d", seed, w, a.Root, a.Subtrees, want)
		}

		name := rng.Perm(w.switches)
		other := tree{switches: w.switches}
		for _, l := range w.links {
			other.links = append(other.links, [2]int{name[l[1]], name[l[0]]})
		}
		for _, s := range w.home {
			other.home = append(other.home, name[s])
		}
		rng.Shuffle(len(other.links), func(i, j int) { other.links[i], other.links[j] = other.links[j], other.links[i] })
		b := Analyze(other.topology(t))
		if n > 2 && b.Root != name[a.Root] || !reflect.DeepEqual(a.Subtrees, b.Subtrees) {
			t.Fatalf("seed %d: %v: root %d with %v; renamed: %d with %v", seed, w, a.Root, a.Subtrees, b.Root, b.Subtrees)
		}
		p, q := mustSchedule(t, w, Options{Sync: Receiver}), mustSchedule(t, other, Options{Sync: Receiver})
		if !reflect.DeepEqual(p.Transfers, q.Transfers) {
			t.Fatalf("seed %d: %v: another plan after renaming switches", seed, w)
		}
	}
}

func TestSizes(t *testing.T) {
	w := tree{switches: 2, links: [][2]int{{0, 1}}, home: []int{0, 1, 0, 1}}
	topo := w.topology(t)
	matrix := [][]int64{{9, 0, 1, 2}, {0, 0, 0, 0}, {3, 1 << 40, 0, 0}, {5, 0, 0, 7}}
	p, err := Schedule(topo, plan.AlltoallSizes{Matrix: matrix}, Options{Sync: Sender})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Verify(p, plan.Rules{Topology: topo}); err != nil {
		t.Error(err)
	}
	if len(p.Transfers) != 12 {
		t.Errorf("%d transfers: messages of no bytes are messages", len(p.Transfers))
	}
	for _, tt := range []struct {
		sizes plan.AlltoallSizes
		want  string
	}{
		{plan.AlltoallSizes{Uniform: -1}, "-1"},
		{plan.AlltoallSizes{Matrix: matrix[:3]}, "3 rows for 4 hosts"},
		{plan.AlltoallSizes{Matrix: [][]int64{{0}, {0}, {0}, {0}}}, "sizes"},
	} {
		if _, err := Schedule(topo, tt.sizes, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "aapc: ") {
			t.Errorf("%+v: %v, want %q", tt.sizes, err, tt.want)
		}
	}
}

// All transfers together would carry more than a plan may.
func TestTotalBytes(t *testing.T) {
	w := tree{switches: 1, home: make([]int, 40)}
	if _, err := Schedule(w.topology(t), plan.AlltoallSizes{Uniform: 1 << 50}, Options{}); err == nil {
		t.Error("1560 messages of 1 PiB each are accepted")
	}
}
