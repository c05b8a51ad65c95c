package ring

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestPaperTopologies: what §4.2.1 (Figure 5), §5 (Figure 8, Table 1 and the runs on 32 machines)
// say of their clusters. The figures are missing; 4 switches with a ring of 4 hops are a chain, and
// the node assignment of (f), eight times as slow in rank order, is one that deals hosts out in turn.
func TestPaperTopologies(t *testing.T) {
	inTurn := make([]int, 32)
	for h := range inTurn {
		inTurn[h] = h % 4
	}
	for _, tt := range []struct {
		name          string
		tree          *plan.Topology
		lr1, lr2, lr3 int
		rankLoad      int // of the ring that knows nothing of switches
	}{
		{"figure 5", topology(chainOf(4), []int{2, 2, 2, 2}), 4, 2, 2, 1},
		{"(a)", topology(nil, []int{16}), 1, 1, 1, 1},
		{"(b)", topology(chainOf(2), []int{8, 8}), 2, 2, 2, 1},
		{"(d)", topology(chainOf(4), []int{4, 4, 4, 4}), 4, 2, 2, 1},
		{"(e)", topology(chainOf(4), []int{8, 8, 8, 8}), 4, 2, 2, 1},
		{"(f)", dealt(chainOf(4), inTurn), 4, 2, 2, 8},
	} {
		order, path := LR1(tt.tree)
		check(t, tt.tree, order, path)
		second, two, err := LR2(tt.tree)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		check(t, tt.tree, second, two)
		third, best := LR3(tt.tree)
		check(t, tt.tree, third, best)
		if path != tt.lr1 || two != tt.lr2 || best != tt.lr3 {
			t.Errorf("%s: lr1 %d, lr2 %d, lr3 %d hops; want %d, %d, %d", tt.name, path, two, best, tt.lr1, tt.lr2, tt.lr3)
		}
		ranks := slices.Sorted(slices.Values(order))
		if _, load := Measure(tt.tree, ranks); load != tt.rankLoad {
			t.Errorf("%s: rank order puts %d messages on a link, want %d", tt.name, load, tt.rankLoad)
		}
	}
}

// TestRings holds rings that can be checked by eye.
func TestRings(t *testing.T) {
	for _, tt := range []struct {
		name          string
		tree          *plan.Topology
		lr1, lr2, lr3 []int // lr2 is nil where there is none
	}{
		{"one host", topology(nil, []int{1}), []int{0}, []int{0}, []int{0}},
		{"one switch", topology(nil, []int{3}), []int{0, 1, 2}, []int{0, 1, 2}, []int{0, 1, 2}},
		// Figure 5: Algorithm 1 goes down the chain and back in one message of 4 hops;
		// Algorithm 2 leaves one host on each switch for the way back.
		{"chain", topology(chainOf(4), []int{2, 2, 2, 2}),
			[]int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 2, 4, 6, 7, 5, 3, 1}, []int{0, 2, 4, 6, 7, 5, 3, 1}},
		// The search begins at the switch of rank 0, s2, and follows the order of its links:
		// from rank 2 on s0 to rank 1 on s3 are 4 hops, and 3 are possible.
		{"root", dealt(chainOf(4), []int{2, 3, 0, 1}), []int{0, 3, 2, 1}, nil, []int{0, 2, 3, 1}},
		// s1, s2 and s3 have one host each and hang on s0, which has none.
		{"bare hub", topology(starOf(4), []int{0, 1, 1, 1}), []int{0, 1, 2}, nil, []int{0, 1, 2}},
	} {
		if got, _ := LR1(tt.tree); !slices.Equal(got, tt.lr1) {
			t.Errorf("%s: lr1 %v, want %v", tt.name, got, tt.lr1)
		}
		if got, _, _ := LR2(tt.tree); !slices.Equal(got, tt.lr2) {
			t.Errorf("%s: lr2 %v, want %v", tt.name, got, tt.lr2)
		}
		if got, _ := LR3(tt.tree); !slices.Equal(got, tt.lr3) {
			t.Errorf("%s: lr3 %v, want %v", tt.name, got, tt.lr3)
		}
	}
}

func TestBreakers(t *testing.T) {
	for _, tt := range []struct {
		name string
		tree *plan.Topology
		want []int
	}{
		{"as many hosts as switches", topology(starOf(4), []int{3, 1, 1, 1}), nil},
		{"one host short", topology(starOf(4), []int{2, 1, 1, 1}), []int{0}},
		{"two in a chain", topology(chainOf(4), []int{1, 1, 1, 1}), []int{1, 2}},
		// s1 and s2 have no hosts behind them: s0 has one neighbour left, s3.
		{"bare branch", topology([]int{0, 1, 0}, []int{1, 0, 0, 1}), nil},
		// A switch without hosts between two with hosts is no leaf, and stays.
		{"bare middle", topology(chainOf(3), []int{4, 0, 4}), []int{1}},
		{"all bare but one", topology(starOf(5), []int{0, 0, 0, 2, 0}), nil},
	} {
		if got := Breakers(tt.tree); !slices.Equal(got, tt.want) {
			t.Errorf("%s: switches %v break the condition, want %v", tt.name, got, tt.want)
		}
	}
	_, _, err := LR2(topology(chainOf(3), []int{4, 0, 4}))
	want := "lr2: switch s1 has fewer hosts (0) than neighbouring switches (2), so there is no ring of two hops; use lr3"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestTheorem2 holds on trees of any size: the condition is true if and only if the
// shortest maximum path length is 2 or less, and LR2 reaches it. It is below 2 if and
// only if all hosts hang on one switch.
func TestTheorem2(t *testing.T) {
	holds := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		topo := randomTree(rng, 40, 150)
		_, best := LR3(topo)
		broken := Breakers(topo)
		if (len(broken) == 0) != (best <= 2) {
			t.Fatalf("seed %d: switches %v break the condition, lr3's path length is %d, on %s", seed, broken, best, describe(topo))
		}
		if oneSwitch := len(newTree(topo).trim().hang(topo.Home(0)).preorder) == 1; oneSwitch != (best <= 1) {
			t.Fatalf("seed %d: one switch is %v, lr3's path length is %d, on %s", seed, oneSwitch, best, describe(topo))
		}
		if len(broken) == 0 {
			holds++
			order, path, err := LR2(topo)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			check(t, topo, order, path)
			if path != best {
				t.Fatalf("seed %d: lr2's path length is %d, lr3's %d, on %s", seed, path, best, describe(topo))
			}
		}
	}
	if holds < 100 || holds > 1900 {
		t.Errorf("the condition holds on %d trees of 2000: they test one side only", holds)
	}
}

// TestLargeTrees: rings of trees too large for brute force are free of contention, and LR3's is
// no longer than LR1's from any root.
func TestLargeTrees(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		topo := randomTree(rng, 200, 400)
		order, best := LR3(topo)
		check(t, topo, order, best)
		first, path := LR1(topo)
		check(t, topo, first, path)
		root := rng.IntN(len(topo.Switches()))
		other, load := Measure(topo, depthFirst(topo, root))
		if best > path || best > other || load > 1 {
			t.Fatalf("seed %d: lr3 %d, lr1 %d, from s%d %d with load %d, on %s", seed, best, path, root, other, load, describe(topo))
		}
	}
}

// TestLongChain: two hosts at the ends of a chain are as far apart as a tree can have them.
// A search that tried every length would take a minute.
func TestLongChain(t *testing.T) {
	hosts := make([]int, 4000)
	hosts[0], hosts[3999] = 1, 1
	topo := topology(chainOf(4000), hosts)
	if order, path := LR3(topo); path != 4000 || len(order) != 2 {
		t.Errorf("%v with path length %d, want 4000", order, path)
	}
}

func TestMeasure(t *testing.T) {
	// Two switches, ranks alternate: every message crosses the cable.
	topo := dealt(chainOf(2), []int{0, 1, 0, 1})
	for _, tt := range []struct {
		order      []int
		path, load int
	}{
		{[]int{0, 1, 2, 3}, 2, 2},
		{[]int{0, 2, 1, 3}, 2, 1},
		{[]int{0, 2}, 1, 1},
		{[]int{3}, 0, 0},
		{nil, 0, 0},
	} {
		if path, load := Measure(topo, tt.order); path != tt.path || load != tt.load {
			t.Errorf("%v: path %d, load %d; want %d, %d", tt.order, path, load, tt.path, tt.load)
		}
	}
}
