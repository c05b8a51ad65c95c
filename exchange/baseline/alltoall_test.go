package baseline

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

type alltoallFunc = func([]string, plan.AlltoallSizes) (*plan.Plan, error)

// alltoalls lists the algorithms that know no pools. steps is the length of the longest
// chain of transfers for n ≥ 2 ranks, transfers their number, blocks the blocks that all of them carry.
var alltoalls = []struct {
	name      string
	make      alltoallFunc
	steps     func(n int) int
	transfers func(n int) int
	blocks    func(n int) int
}{
	{"simple", AlltoallSimple, func(int) int { return 1 }, pairs, pairs},
	{"spreading-simple", AlltoallSpreadingSimple, func(int) int { return 1 }, pairs, pairs},
	{"pairwise-mpich", AlltoallPairwise, func(n int) int { return n - 1 }, pairs, pairs},
	{"ring", AlltoallRing, func(n int) int { return n - 1 }, pairs, func(n int) int { return n * pairs(n) / 2 }},
	// A block travels as many hops as its distance has bits.
	{"bruck", AlltoallBruck, func(n int) int { return bits.Len(uint(n - 1)) }, func(n int) int { return n * bits.Len(uint(n-1)) },
		func(n int) int {
			hops := 0
			for dist := range n {
				hops += bits.OnesCount(uint(dist))
			}
			return n * hops
		}},
}

func pairs(n int) int { return n * (n - 1) }

// randomSizes are equal blocks, or a matrix with one block in three empty.
func randomSizes(rng *rand.Rand, n int) plan.AlltoallSizes {
	if rng.IntN(3) == 0 {
		return plan.AlltoallSizes{Uniform: int64(rng.IntN(2)) << 16}
	}
	m := make([][]int64, n)
	for i := range m {
		m[i] = make([]int64, n)
		for j := range m[i] {
			m[i][j] = int64(rng.IntN(3)) * rng.Int64N(1<<20)
		}
	}
	return plan.AlltoallSizes{Matrix: m}
}

// checkEdges checks what Verify does not ask: every delivery is in After directly, what
// else is in After is of the sender's own doing and named, After is ascending, the
// plan has no phases, and even blocks of no bytes arrive.
func checkEdges(p *plan.Plan) error {
	brought := make(map[[3]int]int) // origin, dest, host
	final := 0
	for i, t := range p.Transfers {
		if t.Phase != -1 || t.After == nil || !slices.IsSorted(t.After) || len(slices.Compact(slices.Clone(t.After))) != len(t.After) {
			return fmt.Errorf("transfer %d: phase %d, after %v", i, t.Phase, t.After)
		}
		data := make(map[int]bool)
		for _, b := range t.Blocks {
			if k, ok := brought[[3]int{b.Origin, b.Dest, t.Src}]; ok {
				if !slices.Contains(t.After, k) {
					return fmt.Errorf("transfer %d passes on %v and is not after %d, which brought it", i, b, k)
				}
				data[k] = true
			} else if b.Origin != t.Src {
				return fmt.Errorf("transfer %d sends %v, which host %d does not hold", i, b, t.Src)
			}
			brought[[3]int{b.Origin, b.Dest, t.Dst}] = i
			if b.Dest == t.Dst {
				final++
			}
		}
		named := ""
		for _, k := range t.After {
			if q := p.Transfers[k]; !data[k] {
				named = "sender"
				if q.Src != t.Src && q.Dst != t.Src {
					return fmt.Errorf("transfer %d is after %d, which has nothing to do with host %d", i, k, t.Src)
				}
			}
		}
		if t.Sync != named {
			return fmt.Errorf("transfer %d: sync %q, want %q", i, t.Sync, named)
		}
	}
	if want := pairs(len(p.Hosts)); final != want {
		return fmt.Errorf("%d blocks arrive, want %d", final, want)
	}
	return nil
}

func countBlocks(p *plan.Plan) int {
	sum := 0
	for _, t := range p.Transfers {
		sum += len(t.Blocks)
	}
	return sum
}

// TestAlltoalls proves every plan for 1 … 65 ranks and checks steps, transfers and blocks.
func TestAlltoalls(t *testing.T) {
	for _, tt := range alltoalls {
		t.Run(tt.name, func(t *testing.T) {
			for n := 1; n <= 65; n++ {
				p, err := tt.make(names(n), randomSizes(rand.New(rand.NewPCG(uint64(n), 5)), n))
				if err != nil {
					t.Fatalf("n=%d: %v", n, err)
				}
				if err := plan.Verify(p, plan.Rules{}); err != nil {
					t.Fatalf("n=%d: %v", n, err)
				}
				if err := checkEdges(p); err != nil {
					t.Fatalf("n=%d: %v", n, err)
				}
				if p.Algorithm != tt.name {
					t.Errorf("n=%d: algorithm %q", n, p.Algorithm)
				}
				if n == 1 {
					continue
				}
				if got, want := iterations(p), tt.steps(n); got != want {
					t.Errorf("n=%d: a chain of %d steps, want %d", n, got, want)
				}
				if got, want := len(p.Transfers), tt.transfers(n); got != want {
					t.Errorf("n=%d: %d transfers, want %d", n, got, want)
				}
				if got, want := countBlocks(p), tt.blocks(n); got != want {
					t.Errorf("n=%d: %d blocks in all transfers, want %d", n, got, want)
				}
			}
		})
	}
}

// TestAlltoallSteps: in the algorithms that are loops a rank sends one transfer a step
// and receives one, and comes after both of the step before.
func TestAlltoallSteps(t *testing.T) {
	for _, tt := range alltoalls[2:] {
		for n := 2; n <= 33; n++ {
			p, err := tt.make(names(n), plan.AlltoallSizes{Uniform: 1})
			if err != nil {
				t.Fatal(err)
			}
			into := make(map[[2]int]int) // step and rank -> the transfer that it receives
			for i, tr := range p.Transfers {
				step := i / n
				if tr.Src != i%n {
					t.Fatalf("%s n=%d: transfer %d is from %d, want steps of one transfer per rank in rank order", tt.name, n, i, tr.Src)
				}
				if k, ok := into[[2]int{step, tr.Dst}]; ok {
					t.Fatalf("%s n=%d: rank %d receives %d and %d in one step", tt.name, n, tr.Dst, k, i)
				}
				into[[2]int{step, tr.Dst}] = i
				if step > 0 && (!slices.Contains(tr.After, i-n) || !slices.Contains(tr.After, into[[2]int{step - 1, tr.Src}])) {
					t.Fatalf("%s n=%d: transfer %d is after %v, want %d and %d among them", tt.name, n, i, tr.After, i-n, into[[2]int{step - 1, tr.Src}])
				}
			}
		}
	}
}

// TestSmallAlltoalls holds the plans that fit on a page: "src→dst [origin dest …] after sync".
func TestSmallAlltoalls(t *testing.T) {
	pooled := func(pools ...[]int) alltoallFunc {
		return func(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
			return AlltoallHierarchical(hosts, sizes, pools)
		}
	}
	tests := []struct {
		name string
		make alltoallFunc
		n    int
		want string
	}{
		{"simple", AlltoallSimple, 3, `0→1 01 []; 0→2 02 []; 1→0 10 []; 1→2 12 []; 2→0 20 []; 2→1 21 []`},
		{"spreading", AlltoallSpreadingSimple, 3, `0→1 01 []; 1→2 12 []; 2→0 20 []; 0→2 02 []; 1→0 10 []; 2→1 21 []`},
		{"pairwise of 4, by XOR", AlltoallPairwise, 4, `
			0→1 01 []; 1→0 10 []; 2→3 23 []; 3→2 32 [];
			0→2 02 [0 1] sender; 1→3 13 [0 1] sender; 2→0 20 [2 3] sender; 3→1 31 [2 3] sender;
			0→3 03 [4 6] sender; 1→2 12 [5 7] sender; 2→1 21 [4 6] sender; 3→0 30 [5 7] sender`},
		{"pairwise of 3, by shift", AlltoallPairwise, 3, `
			0→1 01 []; 1→2 12 []; 2→0 20 [];
			0→2 02 [0 2] sender; 1→0 10 [0 1] sender; 2→1 21 [1 2] sender`},
		{"ring", AlltoallRing, 3, `
			0→1 01,02 []; 1→2 12,10 []; 2→0 20,21 [];
			0→1 21 [0 2] sender; 1→2 02 [0 1] sender; 2→0 10 [1 2] sender`},
		// Distance 3 goes by way of the next rank.
		{"bruck", AlltoallBruck, 4, `
			0→1 01,03 []; 1→2 12,10 []; 2→3 23,21 []; 3→0 30,32 [];
			0→2 02,32 [0 3] sender; 1→3 13,03 [0 1] sender; 2→0 20,10 [1 2] sender; 3→1 31,21 [2 3] sender`},
		{"two pools", pooled([]int{3}, []int{2, 0, 1}), 4, `
			1→0 13 []; 2→0 23 [];
			0→3 03,13,23 [0 1]; 3→0 30,31,32 [];
			0→1 31 [3]; 0→2 32 [3];
			0→1 01 []; 1→2 12 []; 2→0 20 []; 0→2 02 []; 1→0 10 []; 2→1 21 []`},
		// Rank 2 gives what goes to the next pool first, and gets what came first first.
		{"three pools", pooled([]int{0}, []int{1, 2}, []int{3}), 4, `
			2→1 23,20 [];
			0→1 01,02 []; 1→3 13,23 [0]; 3→0 30 [];
			0→3 03 [1 3] sender; 1→0 10,20 [0 1 2] sender; 3→1 31,32 [2 3] sender;
			1→2 02,32 [1 6];
			1→2 12 []; 2→1 21 []`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.make(names(tt.n), plan.AlltoallSizes{Uniform: 1})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tr := range p.Transfers {
				var blocks []string
				for _, b := range tr.Blocks {
					blocks = append(blocks, fmt.Sprintf("%d%d", b.Origin, b.Dest))
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d→%d %s %v %s", tr.Src, tr.Dst, strings.Join(blocks, ","), tr.After, tr.Sync)))
			}
			want := strings.Split(strings.Join(strings.Fields(tt.want), " "), "; ")
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestAlltoallRefuses(t *testing.T) {
	makers := map[string]alltoallFunc{"hierarchical": func(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
		return AlltoallHierarchical(hosts, sizes, [][]int{{0, 1, 2}})
	}}
	for _, a := range alltoalls {
		makers[a.name] = a.make
	}
	for name, make := range makers {
		for _, tt := range []struct {
			hosts []string
			sizes plan.AlltoallSizes
			want  string
		}{
			{nil, plan.AlltoallSizes{}, "0 hosts"},
			{names(3), plan.AlltoallSizes{Uniform: -7}, "-7"},
			{names(3), plan.AlltoallSizes{Matrix: [][]int64{{1}}}, "1 rows for 3 hosts"},
		} {
			p, err := make(tt.hosts, tt.sizes)
			if err == nil || p != nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, %v; want an error with %q", name, p, err, tt.want)
			}
		}
	}
	for _, pools := range [][][]int{{{0, 1}}, {{0, 1}, {1, 2}}, {{0, 1, 2}, {}}, {{0, 1, 3}, {2}}} {
		if p, err := AlltoallHierarchical(names(3), plan.AlltoallSizes{}, pools); err == nil || p != nil || !strings.HasPrefix(err.Error(), "hierarchical: ") {
			t.Errorf("pools %v: got %v, %v", pools, p, err)
		}
	}
}
