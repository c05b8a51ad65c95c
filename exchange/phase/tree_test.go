package phase

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// bandwidth is that of every link: a message of 1000 bytes takes 1 ms.
const bandwidth = netmap.BytesPerSec(1e6)

// A tree is a topology as a test knows it: with paths of its own making.
type tree struct {
	switches int
	links    [][2]int
	home     []int // by rank
}

func (w tree) String() string {
	return fmt.Sprintf("%d switches, links %v, home %v", w.switches, w.links, w.home)
}

func (w tree) topology(t testing.TB) *plan.Topology {
	t.Helper()
	switches := make([]string, w.switches)
	for i := range switches {
		switches[i] = fmt.Sprintf("s%d", i)
	}
	hosts := make([]string, len(w.home))
	for i := range hosts {
		hosts[i] = fmt.Sprintf("n%d", i)
	}
	topo, err := plan.NewTopology(switches, w.links, hosts, w.home, bandwidth)
	if err != nil {
		t.Fatalf("%v: %v", w, err)
	}
	return topo
}

// An arc is a directed link; machines are nodes from 0, switches follow them.
type arc [2]int

// paths returns the arcs between every two machines, [src][dst].
func (w tree) paths() [][][]arc {
	n := len(w.home)
	near := make([][]int, n+w.switches)
	join := func(a, b int) {
		near[a] = append(near[a], b)
		near[b] = append(near[b], a)
	}
	for _, l := range w.links {
		join(n+l[0], n+l[1])
	}
	for h, s := range w.home {
		join(h, n+s)
	}
	all := make([][][]arc, n)
	for src := range n {
		all[src] = make([][]arc, n)
		var walk func(at, from int, so []arc)
		walk = func(at, from int, so []arc) {
			if at < n && at != src {
				all[src][at] = so
			}
			for _, next := range near[at] {
				if next != from {
					walk(next, at, append(so[:len(so):len(so)], arc{at, next}))
				}
			}
		}
		walk(src, -1, nil)
	}
	return all
}

// load counts for every arc the messages that cross it.
func (w tree) load(paths [][][]arc) int {
	count := make(map[arc]int)
	most := 0
	for _, row := range paths {
		for _, path := range row {
			for _, a := range path {
				count[a]++
				most = max(most, count[a])
			}
		}
	}
	return most
}

// A shape makes links between n switches; its name is in messages of failures.
type shape struct {
	name  string
	links func(rng *rand.Rand, n int) [][2]int
}

var shapes = []shape{
	{"chain", func(_ *rand.Rand, n int) (l [][2]int) {
		for i := 1; i < n; i++ {
			l = append(l, [2]int{i - 1, i})
		}
		return l
	}},
	{"star", func(_ *rand.Rand, n int) (l [][2]int) {
		for i := 1; i < n; i++ {
			l = append(l, [2]int{0, i})
		}
		return l
	}},
	{"random", func(rng *rand.Rand, n int) (l [][2]int) {
		for i := 1; i < n; i++ {
			l = append(l, [2]int{i, rng.IntN(i)})
		}
		return l
	}},
	{"deep", func(rng *rand.Rand, n int) (l [][2]int) {
		for i := 1; i < n; i++ {
			l = append(l, [2]int{max(0, i-1-rng.IntN(2)), i})
		}
		return l
	}},
}

// randomTree draws a tree of at most so many switches and machines: evenly filled,
// crowded on one switch, or on leaves only.
func randomTree(rng *rand.Rand, switches, machines int) tree {
	w := tree{switches: 1 + rng.IntN(switches), home: make([]int, 1+rng.IntN(machines))}
	w.links = shapes[rng.IntN(len(shapes))].links(rng, w.switches)
	name := rng.Perm(w.switches) // the numbers of switches say nothing about their places
	degree := make([]int, w.switches)
	for i, l := range w.links {
		w.links[i] = [2]int{name[l[0]], name[l[1]]}
		degree[name[l[0]]]++
		degree[name[l[1]]]++
	}
	rng.Shuffle(len(w.links), func(i, j int) { w.links[i], w.links[j] = w.links[j], w.links[i] })
	crowd, style := rng.IntN(w.switches), rng.IntN(3)
	for h := range w.home {
		s := rng.IntN(w.switches)
		for tries := 0; style == 1 && degree[s] > 1 && tries < 20; tries++ {
			s = rng.IntN(w.switches)
		}
		if style == 2 && rng.IntN(3) > 0 {
			s = crowd
		}
		w.home[h] = s
	}
	return w
}

// smallTrees calls f with every tree of so many switches, each at least once (numbered
// breadth first: what switch i is cabled to does not fall with i), and every way to put
// 1…machines machines on them.
func smallTrees(switches, machines int, f func(tree)) {
	parent := make([]int, switches)
	var grow func(i int)
	var fill func(w tree, s, left int)
	fill = func(w tree, s, left int) {
		if s == w.switches {
			if len(w.home) > 0 {
				f(w)
			}
			return
		}
		for c := 0; c <= left; c++ {
			fill(w, s+1, left-c)
			w.home = append(w.home[:len(w.home):len(w.home)], s)
		}
	}
	grow = func(i int) {
		if i == switches {
			w := tree{switches: switches}
			for s := 1; s < switches; s++ {
				w.links = append(w.links, [2]int{parent[s], s})
			}
			fill(w, 0, machines)
			return
		}
		for parent[i] = parent[i-1]; parent[i] < i; parent[i]++ {
			grow(i + 1)
		}
	}
	grow(1)
}
