package ring

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

var kinds = []Kind{KindLR1, KindLR2, KindLR3}

// TestAllgatherIsProved hands plans of all kinds on trees of all shapes to the
// verifier: complete, causal, and no link is used twice in a phase.
func TestAllgatherIsProved(t *testing.T) {
	made := map[Kind]int{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		topo := randomTree(rng, 25, 40)
		n := len(topo.Hosts())
		sizes := []int64{int64(rng.IntN(3)) << 10}
		if rng.IntN(2) == 0 {
			sizes = make([]int64, n)
			for i := range sizes {
				sizes[i] = int64(rng.IntN(3)) * 1000
			}
		}
		for _, kind := range kinds {
			p, err := Allgather(topo, kind, sizes)
			if kind == KindLR2 && len(Breakers(topo)) > 0 {
				if err == nil {
					t.Fatalf("seed %d: lr2 made a plan where there is no ring of two hops", seed)
				}
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			made[kind]++
			if err := plan.Verify(p, plan.Rules{Topology: topo}); err != nil {
				t.Fatalf("seed %d: %s: %v, on %s", seed, kind, err, describe(topo))
			}
			if p.Algorithm != string(kind) || p.Phases != n-1 || len(p.Transfers) != n*(n-1) {
				t.Fatalf("seed %d: %s: %q has %d phases and %d transfers for %d hosts", seed, kind, p.Algorithm, p.Phases, len(p.Transfers), n)
			}
			// What a host sends goes to one other, whatever the step: so no link carries
			// messages of two pairs, and no step has to wait for the one before.
			to := map[int]int{}
			for _, tr := range p.Transfers {
				if dst, ok := to[tr.Src]; ok && dst != tr.Dst {
					t.Fatalf("seed %d: %s: host %d sends to %d and %d", seed, kind, tr.Src, dst, tr.Dst)
				}
				to[tr.Src] = tr.Dst
			}
			again, err := Allgather(topo, kind, sizes)
			if err != nil || !reflect.DeepEqual(p, again) {
				t.Fatalf("seed %d: %s: another plan the second time (%v)", seed, kind, err)
			}
		}
	}
	if made[KindLR2] < 20 {
		t.Errorf("%d plans of lr2: it is hardly tested", made[KindLR2])
	}
}

// TestAllgatherReachesTheBound: in the flow model every ring takes what one host needs to
// receive all other blocks, (P−1)·msize/B (§1), and the latency of the chunk that goes round.
func TestAllgatherReachesTheBound(t *testing.T) {
	const size, chunk, latency = 1 << 20, 1 << 16, 100 * time.Microsecond
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 8))
		topo := randomTree(rng, 10, 20)
		net, err := plan.NetworkOfTopology(topo, latency)
		if err != nil {
			t.Fatal(err)
		}
		rounds := float64(len(topo.Hosts()) - 1)
		bound := rounds * float64(size) / (100 * netmapMbps)
		for _, kind := range []Kind{KindLR1, KindLR3} {
			p, err := Allgather(topo, kind, []int64{size})
			if err != nil {
				t.Fatal(err)
			}
			r, err := plan.Simulate(p, net, plan.SimOptions{Chunk: chunk})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if slack := rounds * latency.Seconds(); r.Makespan < bound || r.Makespan > bound+slack+1e-6 {
				t.Errorf("seed %d: %s: %v s, want %v to %v, on %s", seed, kind, r.Makespan, bound, bound+slack, describe(topo))
			}
		}
	}
}

// TestSmallPlan holds a plan that fits on a page: src→dst [block] after.
func TestSmallPlan(t *testing.T) {
	p, err := Allgather(dealt(chainOf(2), []int{0, 1, 0}), KindLR1, []int64{1, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	want := `0→2 [0] [] 0; 2→1 [2] [] 0; 1→0 [1] [] 0; 0→2 [1] [2] 1; 2→1 [0] [0] 1; 1→0 [2] [1] 1`
	var got []string
	for _, tr := range p.Transfers {
		got = append(got, fmt.Sprintf("%d→%d [%d] %v %d", tr.Src, tr.Dst, tr.Blocks[0].Origin, tr.After, tr.Phase))
	}
	if s := strings.Join(got, "; "); s != want || !slices.Equal(p.Sizes, []int64{1, 0, 2}) || p.MessageBytes != 0 {
		t.Errorf("sizes %v\n got %s\nwant %s", p.Sizes, s, want)
	}
	sizes := []int64{4, 4, 4}
	p, err = Allgather(topology(nil, []int{3}), KindLR3, sizes)
	if err != nil || p.MessageBytes != 4 || p.Sizes != nil {
		t.Errorf("equal sizes: %+v, %v", p, err)
	}
	p, err = Allgather(topology(nil, []int{1}), KindLR2, sizes[:1])
	if err != nil || len(p.Transfers) != 0 || p.Phases != 0 {
		t.Errorf("one host: %+v, %v", p, err)
	}
}

func TestAllgatherErrors(t *testing.T) {
	topo := topology(chainOf(3), []int{1, 0, 2})
	for _, tt := range []struct {
		kind  Kind
		sizes []int64
		want  string
	}{
		{"lr4", []int64{1}, `ring: no construction "lr4"; there are lr1, lr2 and lr3`},
		{KindLR2, []int64{1}, "lr2: switch s1 has fewer hosts (0) than neighbouring switches (2)"},
		{KindLR1, nil, "lr1: 0 block sizes for 3 hosts: want one, or one for each"},
		{KindLR3, []int64{1, 2}, "lr3: 2 block sizes for 3 hosts"},
		{KindLR3, []int64{1, -2, 3}, "lr3: sizes: size -2 of rank 1 is not in"},
		{KindLR3, []int64{-1}, "lr3: message_bytes: -1 is not in"},
	} {
		p, err := Allgather(topo, tt.kind, tt.sizes)
		if p != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s, sizes %v: %v, want %s", tt.kind, tt.sizes, err, tt.want)
		}
	}
}
