package plan

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const treeExample = `{"switches":["s0","s1","s2"],
"links":[["s0","s1"],
["s2","s1"]],
"hosts":{"n0":"s0","n1":"s0",
"n2":"s1","n3":"s2"},
"bandwidth_mbps":100}`

func tree(t *testing.T) *Topology {
	t.Helper()
	topo, err := ReadTopology("t.json", []byte(treeExample))
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// route names the links of a path: "n0→s0 s0→s1 s1→n2".
func route(topo *Topology, src, dst int) string {
	var names []string
	for _, l := range topo.Path(nil, src, dst) {
		from, to := topo.Ends(l)
		names = append(names, from+"→"+to)
	}
	return strings.Join(names, " ")
}

func TestTopologyPath(t *testing.T) {
	topo := tree(t)
	if got := strings.Join(topo.Hosts(), " "); got != "n0 n1 n2 n3" {
		t.Errorf("rank order %s", got)
	}
	if b, ok := topo.Bandwidth(); !ok || b.Mbps() != 100 {
		t.Errorf("bandwidth %v, %v", b, ok)
	}
	for _, tt := range []struct {
		src, dst int
		want     string
	}{
		{0, 1, "n0→s0 s0→n1"},
		{0, 3, "n0→s0 s0→s1 s1→s2 s2→n3"},
		{3, 1, "n3→s2 s2→s1 s1→s0 s0→n1"},
		{2, 3, "n2→s1 s1→s2 s2→n3"},
		{2, 2, ""},
	} {
		if got := route(topo, tt.src, tt.dst); got != tt.want {
			t.Errorf("%d→%d: %q, want %q", tt.src, tt.dst, got, tt.want)
		}
	}
}

func TestTopologyErrors(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{`["s2","s1"]`, "[\"s2\",\"s1\"],\n[\"s0\",\"s2\"]", `t.json:4: links[2]: loop: s0 – s1 – s2 – s0`},
		{`["s2","s1"]`, `["s1","s0"]`, `t.json:3: links[1]: loop: s1 – s0 – s1`},
		{`["s2","s1"]`, `["s2","s2"]`, `t.json:3: links[1]: loop: switch s2 is linked to itself`},
		{",\n[\"s2\",\"s1\"]", ``, `t.json:2: links: no link leads from switch s0 to switch s2`},
		{`["s2","s1"]`, `["s2"]`, `t.json:3: links[1]: want the two switches of a link, found 1`},
		{`["s2","s1"]`, `["s2","s9"]`, `t.json:3: links: "s9" is none of the 3 switches`},
		{`"n3":"s2"`, `"n3":"x"`, `t.json:5: hosts: "x" is none of the 3 switches`},
		{`"n3":"s2"`, `"n0":"s2"`, `t.json:5: hosts[3]: "n0" is already the name of a host`},
		{`"n3":"s2"`, `"s1":"s2"`, `t.json:5: hosts[3]: "s1" is already the name of a switch`},
		{`"n3":"s2"`, `"n3":2`, `t.json:5: hosts: n3: want a string, found 2`},
		{`"switches":["s0","s1","s2"],`, ``, `t.json:1: "switches" is missing`},
		{`"n3":"s2"`, `"n\u0007":"s2"`, `t.json:5: hosts: "n\a" holds the control character '\a'`},
		{`"n3":"s2"`, `"n3":"s\n2"`, `t.json:5: hosts: n3: "s\n2" holds the control character '\n'`},
		{`"switches":["s0"`, "\"switches\":[\"s0\u009b\"", "t.json:1: switches[0]: \"s0\\u009b\" holds the control character '\\u009b'"},
		{`["s2","s1"]`, `["s2","s\t1"]`, `t.json:3: links[1]: "s\t1" holds the control character '\t'`},
		{`100`, `0`, `t.json:6: bandwidth_mbps: 0 is not in 8e-06 … 1e+07`},
		{`100`, `1e-300`, `t.json:6: bandwidth_mbps: 1e-300 is not in 8e-06 … 1e+07`},
		{`100`, `1e308`, `t.json:6: bandwidth_mbps: 1e+308 is not in 8e-06 … 1e+07`},
		{`"switches":["s0","s1","s2"]`, `"switches":["s0","s1","s2","s2"]`, `t.json:1: switches[3]: "s2" is already the name of a switch`},
	}
	for _, tt := range tests {
		if !strings.Contains(treeExample, tt.old) {
			t.Fatalf("%q is not in the file", tt.old)
		}
		_, err := ReadTopology("t.json", []byte(strings.Replace(treeExample, tt.old, tt.new, 1)))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s -> %s:\n got %v\nwant %s", tt.old, tt.new, err, tt.want)
		}
	}
}

func randomTopology(rng *rand.Rand, n int) *Topology {
	switches := make([]string, 1+rng.IntN(6))
	var links [][2]int
	for i := range switches {
		switches[i] = fmt.Sprintf("s%d", i)
		if i > 0 {
			links = append(links, [2]int{i, rng.IntN(i)})
		}
	}
	rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	home := make([]int, n)
	for i := range home {
		home[i] = rng.IntN(len(switches))
	}
	topo, err := NewTopology(switches, links, hostNames(n), home, 0)
	if err != nil {
		panic(err)
	}
	return topo
}

// TestPathInvariants: a path leads link by link from src to dst, visits no node twice,
// and the way back is the same cables the other way round.
func TestPathInvariants(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 2 + rng.IntN(8)
		topo := randomTopology(rng, n)
		for src := range n {
			for dst := range n {
				path := topo.Path(nil, src, dst)
				at, seen := topo.Hosts()[src], map[string]bool{topo.Hosts()[src]: true}
				for _, l := range path {
					from, to := topo.Ends(l)
					if int(l) >= topo.NumLinks() || from != at || seen[to] {
						t.Fatalf("seed %d, %d→%d: %s", seed, src, dst, route(topo, src, dst))
					}
					at, seen[to] = to, true
				}
				back := topo.Path(nil, dst, src)
				slices.Reverse(back)
				for i := range back {
					back[i] ^= 1
				}
				if at != topo.Hosts()[dst] || !slices.Equal(path, back) {
					t.Fatalf("seed %d, %d→%d: %s, and back %s", seed, src, dst, route(topo, src, dst), route(topo, dst, src))
				}
			}
		}
	}
}

// TestContention: on one switch the shift pattern has n-1 phases without contention;
// a transfer moved to another phase meets another at its own cable.
func TestContention(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 3 + rng.IntN(7)
		p := &Plan{Collective: Alltoall, Hosts: hostNames(n), MessageBytes: 1, Phases: n - 1}
		for k := 1; k < n; k++ {
			for i := range n {
				id := p.add(i, (i+k)%n, []Block{{Origin: i, Dest: (i + k) % n}})
				p.Transfers[id].Phase = k - 1
			}
		}
		star, err := NewTopology([]string{"s"}, nil, p.Hosts, make([]int, n), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(p, Rules{Topology: star}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		moved := &p.Transfers[rng.IntN(len(p.Transfers))]
		moved.Phase = (moved.Phase + 1) % (n - 1)
		err = Verify(p, Rules{Topology: star})
		v, _ := errors.AsType[*Violation](err)
		if property(t, err) != ContentionFree || !slices.Contains(v.Transfers, moved.ID) {
			t.Fatalf("seed %d: transfer %d moved to phase %d: %v", seed, moved.ID, moved.Phase, err)
		}
	}
	// Between switches: n0 and n1 share the cable s0→s1 in one direction only.
	p := &Plan{Collective: Alltoall, Hosts: []string{"n0", "n1", "n2", "n3"}}
	p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
	p.add(3, 1, []Block{{Origin: 3, Dest: 1}})
	p.Transfers[0].Phase, p.Transfers[1].Phase = 0, 0
	if err := Verify(p, Rules{Topology: tree(t)}); err != nil {
		t.Errorf("opposite directions: %v", err)
	}
	p.Transfers[1] = Transfer{ID: 1, Src: 1, Dst: 3, Blocks: []Block{{Origin: 1, Dest: 3}}}
	if err := Verify(p, Rules{Topology: tree(t)}); property(t, err) != ContentionFree || !strings.Contains(err.Error(), "link s0→s1 in phase 0") {
		t.Errorf("same direction: %v", err)
	}
}

func FuzzParseTopology(f *testing.F) {
	f.Add([]byte(treeExample))
	f.Add([]byte(`{"switches":["s"],"hosts":{"a":"s"}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		topo, err := ReadTopology("in", in)
		if err != nil {
			if e, ok := errors.AsType[*ParseError](err); !ok || e.Line < 1 || e.Line > 1+bytes.Count(in, []byte("\n")) {
				t.Fatalf("%v names no line of the file", err)
			}
			return
		}
		n := len(topo.Hosts())
		if path := topo.Path(nil, 0, n-1); (len(path) == 0) != (n == 1) {
			t.Fatalf("path %v between the first and the last of %d hosts", path, n)
		}
	})
}
