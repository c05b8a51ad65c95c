package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestSubset: any two hosts of a part are as far apart in it as in the whole, over the same switches.
func TestSubset(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 8))
		whole := randomTopology(rng, 3+rng.IntN(12))
		order := rng.Perm(len(whole.Hosts()))[:2+rng.IntN(len(whole.Hosts())-1)]
		var names []string
		for _, h := range order {
			names = append(names, whole.Hosts()[h])
		}
		part, err := whole.Subset(names)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !slices.Equal(part.Hosts(), names) || !whole.Covers(names) {
			t.Fatalf("seed %d: hosts %v, want %v", seed, part.Hosts(), names)
		}
		for i, a := range order {
			for j, b := range order {
				if got, want := route(part, i, j), route(whole, a, b); i != j && got != want {
					t.Fatalf("seed %d: %s to %s by %s, want %s", seed, names[i], names[j], got, want)
				}
			}
		}
	}
	whole := tree(t)
	if _, err := whole.Subset([]string{whole.Hosts()[0], "nobody"}); err == nil || whole.Covers([]string{"nobody"}) {
		t.Error("a host that is not in the tree was taken")
	}
}

// TestAddTree: a tree that is all of a network adds the trunks that NetworkOfTopology has.
func TestAddTree(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 9))
		topo := randomTopology(rng, 2+rng.IntN(10)).WithBandwidth(12.5e6)
		want, err := NetworkOfTopology(topo, time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		got := &Network{Hosts: topo.Hosts()}
		if err := got.AddTree(topo, 1); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		same := func(a, b Trunk) bool {
			return a.From == b.From && a.To == b.To && a.Rate == b.Rate && slices.Equal(a.Behind, b.Behind)
		}
		if !slices.EqualFunc(got.Trunks, want.Trunks, same) {
			t.Fatalf("seed %d: %+v, want %+v", seed, got.Trunks, want.Trunks)
		}
	}
	// Hosts of other sites are on the root's side of every link.
	topo, err := NewTopology([]string{"s0", "s1"}, [][2]int{{0, 1}}, []string{"a", "b", "c"}, []int{0, 1, 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	net := &Network{Hosts: []string{"x", "c", "a", "b"}}
	if err := net.AddTree(topo, netmap.Mbps); err != nil {
		t.Fatal(err)
	}
	if len(net.Trunks) != 2 || !slices.Equal(net.Trunks[0].Behind, []int{1, 3}) || !slices.Equal(net.Trunks[1].Behind, []int{0, 2}) || net.Trunks[0].Rate != netmap.Mbps {
		t.Errorf("trunks %+v", net.Trunks)
	}
	if net.AddTree(topo, 0) == nil || (&Network{Hosts: []string{"a"}}).AddTree(topo, 1) == nil {
		t.Error("a tree without rates, or with hosts from elsewhere, was taken")
	}
}
