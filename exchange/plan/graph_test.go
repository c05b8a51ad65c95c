package plan

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A ring of four switches with a chord and one more switch, s4, that hangs on s3.
const graphExample = `{"switches":["s0","s1","s2","s3","s4"],
"links":[["s0","s1"],
["s1","s2"],
["s2","s3"],
["s3","s0"],
["s1","s3"],
["s4","s3"]],
"hosts":{"n0":"s0","n1":"s2","n2":"s4"},
"bandwidth_mbps":100}`

// cables lists the cables of t: "0-1 1-2".
func cables(t *Topology) string {
	var list []string
	for s := range t.Switches() {
		for _, next := range t.Adjacent(s) {
			if s < next {
				list = append(list, fmt.Sprintf("%d-%d", s, next))
			}
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestSpanningTree(t *testing.T) {
	g, err := ReadGraph("g.json", []byte(graphExample))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind Spanning
		root int
		want string
	}{
		{SpanBFS, 0, "0-1 0-3 1-2 3-4"},
		{SpanBFS, 4, "0-3 1-3 2-3 3-4"},
		{SpanDFS, 0, "0-1 1-2 2-3 3-4"},
		{SpanDFS, 3, "0-1 1-2 2-3 3-4"},
		{SpanDFS, 1, "0-1 0-3 2-3 3-4"},
	} {
		topo, err := g.SpanningTree(tt.kind, tt.root, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := cables(topo); got != tt.want {
			t.Errorf("%s from s%d: %s, want %s", tt.kind, tt.root, got, tt.want)
		}
		if b, ok := topo.Bandwidth(); !ok || b.Mbps() != 100 || topo.Home(2) != 4 {
			t.Errorf("%s: bandwidth %v, n2 on s%d", tt.kind, b, topo.Home(2))
		}
	}
	// Each of the 8 spanning trees (s4 hangs on one cable) comes up.
	seen := map[string]bool{}
	for seed := range uint64(200) {
		topo, err := g.SpanningTree(SpanRandom, 0, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		seen[cables(topo)] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d random trees, want 8: %v", len(seen), seen)
	}
}

func TestSpanningTreeErrors(t *testing.T) {
	g, err := ReadGraph("g.json", []byte(graphExample))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind Spanning
		root int
		want string
	}{
		{SpanBFS, 5, "root 5 is none of the 5 switches"},
		{SpanDFS, -1, "root -1 is none of the 5 switches"},
		{SpanRandom, 0, "needs a source of randomness"},
		{"prim", 0, `no kind "prim"; there are bfs, dfs and random`},
	} {
		if _, err := g.SpanningTree(tt.kind, tt.root, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s from %d: %v, want %q", tt.kind, tt.root, err, tt.want)
		}
	}
}

func TestGraphErrors(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{",\n[\"s4\",\"s3\"]", ``, `g.json:2: links: no link leads from switch s0 to switch s4`},
		{`["s4","s3"]`, `["s4","s4"]`, `g.json:7: links[5]: switch s4 is linked to itself`},
		{`["s4","s3"]`, `["s4","s9"]`, `g.json:7: links: "s9" is none of the 5 switches`},
		{`["s4","s3"]`, `["s4"]`, `g.json:7: links[5]: want the two switches of a link, found 1`},
		{`"n2":"s4"`, `"s1":"s4"`, `g.json:8: hosts[2]: "s1" is already the name of a switch`},
		{`["s0","s1","s2","s3","s4"]`, `[]`, `g.json:2: links: "s0" is none of the 0 switches`},
	} {
		if !strings.Contains(graphExample, tt.old) {
			t.Fatalf("%q is not in the file", tt.old)
		}
		_, err := ReadGraph("g.json", []byte(strings.Replace(graphExample, tt.old, tt.new, 1)))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s -> %s:\n got %v\nwant %s", tt.old, tt.new, err, tt.want)
		}
	}
	if _, err := NewGraph(nil, nil, []string{"n0"}, []int{0}, 0); err == nil || !strings.Contains(err.Error(), "0 switches") {
		t.Errorf("no switches: %v", err)
	}
	if _, err := NewGraph([]string{"s"}, [][2]int{{0, 1}}, []string{"n0"}, []int{0}, 0); err == nil || !strings.Contains(err.Error(), "1 is none of the 1 switches") {
		t.Errorf("a link to nowhere: %v", err)
	}
}

// randomGraph draws a tree and links beside it, some of them double.
func randomGraph(rng *rand.Rand, extra int) (switches []string, links [][2]int, hosts []string, home []int) {
	n := 1 + rng.IntN(12)
	for s := range n {
		switches = append(switches, fmt.Sprintf("s%d", s))
		if s > 0 {
			links = append(links, [2]int{rng.IntN(s), s})
		}
	}
	for range extra {
		if a, b := rng.IntN(n), rng.IntN(n); a != b {
			links = append(links, [2]int{a, b})
		}
	}
	rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	hosts = hostNames(1 + rng.IntN(8))
	for range hosts {
		home = append(home, rng.IntN(n))
	}
	return switches, links, hosts, home
}

// TestSpanningTreeProperties: NewTopology proves that there is neither loop nor gap; here: all cables
// are the graph's, breadth first gives every switch its least distance from the root, and depth
// first leaves out only cables between a switch and one above it.
func TestSpanningTreeProperties(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		switches, links, hosts, home := randomGraph(rng, rng.IntN(20))
		g, err := NewGraph(switches, links, hosts, home, 0)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		root := rng.IntN(len(switches))
		for _, kind := range []Spanning{SpanBFS, SpanDFS, SpanRandom} {
			topo, err := g.SpanningTree(kind, root, rng)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, kind, err)
			}
			up := make([]int, len(switches)) // parents below root
			depth := make([]int, len(switches))
			up[root] = -1
			for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
				for _, next := range topo.Adjacent(queue[0]) {
					if next != up[queue[0]] {
						up[next], depth[next] = queue[0], depth[queue[0]]+1
						queue = append(queue, next)
					}
				}
			}
			above := func(a, b int) bool {
				for b >= 0 && b != a {
					b = up[b]
				}
				return b == a
			}
			for s, parent := range up {
				if parent >= 0 && !slices.Contains(links, [2]int{s, parent}) && !slices.Contains(links, [2]int{parent, s}) {
					t.Fatalf("seed %d: %s: cable %d-%d is not in %v", seed, kind, s, parent, links)
				}
			}
			for _, l := range links {
				a, b := l[0], l[1]
				if kind == SpanBFS && max(depth[a], depth[b])-min(depth[a], depth[b]) > 1 {
					t.Fatalf("seed %d: link %v joins depths %d and %d of a breadth-first tree", seed, l, depth[a], depth[b])
				}
				if kind == SpanDFS && !above(a, b) && !above(b, a) {
					t.Fatalf("seed %d: link %v joins two branches of a depth-first tree", seed, l)
				}
			}
		}
	}
}

// TestTreeStaysTree: of a graph without loops every kind makes the same topology, down to the order of neighbours.
func TestTreeStaysTree(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		switches, links, hosts, home := randomGraph(rng, 0)
		want, err := NewTopology(switches, links, hosts, home, 7)
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGraph(switches, links, hosts, home, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []Spanning{SpanBFS, SpanDFS, SpanRandom} {
			got, err := g.SpanningTree(kind, rng.IntN(len(switches)), rng)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %s: %v: cables %s, want %s", seed, kind, err, cables(got), cables(want))
			}
		}
	}
}

func FuzzReadGraph(f *testing.F) {
	f.Add([]byte(graphExample))
	f.Add([]byte(treeExample))
	f.Fuzz(func(t *testing.T, in []byte) {
		g, err := ReadGraph("in", in)
		if err != nil {
			if e, ok := errors.AsType[*ParseError](err); !ok || e.Line < 1 || e.Line > 1+bytes.Count(in, []byte("\n")) {
				t.Fatalf("%v names no line of the file", err)
			}
			return
		}
		for _, kind := range []Spanning{SpanBFS, SpanDFS, SpanRandom} {
			if _, err := g.SpanningTree(kind, 0, rand.New(rand.NewPCG(1, 2))); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
	})
}
