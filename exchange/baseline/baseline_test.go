package baseline

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("h%d", i)
	}
	return out
}

// prove checks p as an allgather: complete, nothing twice, and every block that a host forwards
// was brought by a transfer that After names.
func prove(p *plan.Plan) error {
	n := len(p.Hosts)
	brought := make(map[[2]int]int)
	for i, t := range p.Transfers {
		if t.ID != i || t.Src == t.Dst || t.Phase != -1 || t.After == nil || len(t.Blocks) == 0 {
			return fmt.Errorf("transfer %d is malformed: %+v", i, t)
		}
		if !slices.IsSorted(t.After) || len(slices.Compact(slices.Clone(t.After))) != len(t.After) {
			return fmt.Errorf("transfer %d is after %v, want ascending and different", i, t.After)
		}
		if len(t.After) > 0 && t.After[len(t.After)-1] >= i {
			return fmt.Errorf("transfer %d is after %v, which comes later", i, t.After)
		}
		data := map[int]bool{}
		for _, b := range t.Blocks {
			if b.Dest != plan.All {
				return fmt.Errorf("transfer %d carries %+v", i, b)
			}
			if _, ok := brought[[2]int{t.Dst, b.Origin}]; ok || b.Origin == t.Dst {
				return fmt.Errorf("transfer %d brings block %d to host %d again", i, b.Origin, t.Dst)
			}
			if b.Origin != t.Src {
				k, ok := brought[[2]int{t.Src, b.Origin}]
				if !ok {
					return fmt.Errorf("transfer %d sends block %d, which host %d does not hold", i, b.Origin, t.Src)
				}
				if !slices.Contains(t.After, k) {
					return fmt.Errorf("transfer %d forwards block %d and is not after %d, which brought it", i, b.Origin, k)
				}
				data[k] = true
			}
		}
		// What is in After beside data is the sender's own doing, and is named.
		for _, k := range t.After {
			if data[k] {
				continue
			}
			if q := p.Transfers[k]; t.Sync != "sender" || (q.Src != t.Src && q.Dst != t.Src) {
				return fmt.Errorf("transfer %d (sync %q) is after %d, which is neither its data nor its sender's", i, t.Sync, k)
			}
		}
		for _, b := range t.Blocks {
			brought[[2]int{t.Dst, b.Origin}] = i
		}
	}
	if len(brought) != n*(n-1) {
		return fmt.Errorf("%d deliveries for %d hosts, want %d", len(brought), n, n*(n-1))
	}
	return nil
}

// iterations returns the length of the longest chain of After: the iterations of a loop.
func iterations(p *plan.Plan) int {
	depth, most := make([]int, len(p.Transfers)), 0
	for i, t := range p.Transfers {
		for _, k := range t.After {
			depth[i] = max(depth[i], depth[k])
		}
		depth[i]++
		most = max(most, depth[i])
	}
	return most
}

func log2ceil(n int) int { return bits.Len(uint(n - 1)) }

// TestLoops runs every algorithm that is one loop over N = 1 … 33. The iterations and
// the transfers a rank sends are those of Gupta & Vadhiyar §2.
func TestLoops(t *testing.T) {
	tests := []struct {
		name       string
		make       func([]string, []int64) (*plan.Plan, error)
		iterations func(n int) int
		transfers  func(n int) int
	}{
		{"simple", Simple, func(n int) int { return min(n-1, 1) }, func(n int) int { return n * (n - 1) }},
		{"ring", Ring, func(n int) int { return n - 1 }, func(n int) int { return n * (n - 1) }},
		{"spreading-simple", SpreadingSimple, func(n int) int { return n - 1 }, func(n int) int { return n * (n - 1) }},
		{"bruck", Bruck, log2ceil, func(n int) int { return n * log2ceil(n) }},
		{"recursive-doubling", RecursiveDoubling,
			func(n int) int {
				k := bits.Len(uint(n)) - 1
				if n != 1<<k {
					k += 2
				}
				return k
			},
			func(n int) int {
				k := bits.Len(uint(n)) - 1
				return k<<k + 2*(n-1<<k)
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := 1; n <= 33; n++ {
				p, err := tt.make(names(n), []int64{1000})
				if err != nil {
					t.Fatalf("n=%d: %v", n, err)
				}
				if err := prove(p); err != nil {
					t.Fatalf("n=%d: %v", n, err)
				}
				if p.Algorithm != tt.name || p.Collective != plan.Allgather || p.MessageBytes != 1000 {
					t.Errorf("n=%d: header %q %q %d", n, p.Algorithm, p.Collective, p.MessageBytes)
				}
				if got := iterations(p); got != tt.iterations(n) {
					t.Errorf("n=%d: %d iterations, want %d", n, got, tt.iterations(n))
				}
				if got := len(p.Transfers); got != tt.transfers(n) {
					t.Errorf("n=%d: %d transfers, want %d", n, got, tt.transfers(n))
				}
			}
		})
	}
}

// TestSmallPlans holds the plans that fit on a page: "src→dst [blocks] after".
func TestSmallPlans(t *testing.T) {
	pools := [][]int{{2, 0}, {1, 3, 4}}
	tests := []struct {
		name string
		plan func() (*plan.Plan, error)
		want string
	}{
		{"simple of 3", func() (*plan.Plan, error) { return Simple(names(3), []int64{1}) }, `
			0→1 [0] []; 0→2 [0] []; 1→0 [1] []; 1→2 [1] []; 2→0 [2] []; 2→1 [2] []`},
		{"neighbour exchange of 4", func() (*plan.Plan, error) { return NeighbourExchange(names(4), []int64{1}) }, `
			0→1 [0] []; 1→0 [1] []; 2→3 [2] []; 3→2 [3] [];
			0→3 [0 1] [0 1] sender; 1→2 [0 1] [0 1] sender; 2→1 [2 3] [2 3] sender; 3→0 [2 3] [2 3] sender`},
		{"ring of 3", func() (*plan.Plan, error) { return Ring(names(3), []int64{1}) }, `
			0→1 [0] []; 1→2 [1] []; 2→0 [2] [];
			0→1 [2] [0 2] sender; 1→2 [0] [0 1] sender; 2→0 [1] [1 2] sender`},
		{"spreading of 3", func() (*plan.Plan, error) { return SpreadingSimple(names(3), []int64{1}) }, `
			0→1 [0] []; 1→2 [1] []; 2→0 [2] [];
			0→2 [0] [0 2] sender; 1→0 [1] [0 1] sender; 2→1 [2] [1 2] sender`},
		// The second iteration is the last: it sends 3 − 2 blocks.
		{"bruck of 3", func() (*plan.Plan, error) { return Bruck(names(3), []int64{1}) }, `
			0→1 [0] []; 1→2 [1] []; 2→0 [2] [];
			0→2 [0] [0 2] sender; 1→0 [1] [0 1] sender; 2→1 [2] [1 2] sender`},
		{"doubling of 4", func() (*plan.Plan, error) { return RecursiveDoubling(names(4), []int64{1}) }, `
			0→1 [0] []; 1→0 [1] []; 2→3 [2] []; 3→2 [3] [];
			0→2 [0 1] [0 1] sender; 1→3 [0 1] [0 1] sender; 2→0 [2 3] [2 3] sender; 3→1 [2 3] [2 3] sender`},
		// Rank 2 is folded into rank 0.
		{"doubling of 3", func() (*plan.Plan, error) { return RecursiveDoubling(names(3), []int64{1}) }, `
			2→0 [2] [];
			0→1 [0 2] [0]; 1→0 [1] [];
			0→2 [0 1] [1 2] sender`},
		{"magpie", func() (*plan.Plan, error) { return MagPIe(names(5), []int64{1}, pools) }, `
			2→0 [2] []; 3→1 [3] []; 4→1 [4] [];
			0→1 [0 2] [0]; 1→0 [1 3 4] [1 2];
			0→2 [0 1 3 4] [3 4] sender;
			1→4 [0 1 2 3] [1 3 4] sender; 1→3 [0 1 2 4] [2 3 6] sender`},
		// Up in {0 2} and in {1 3 4}, where 4 is folded into 1; up at the root; down.
		{"mpich-g2", func() (*plan.Plan, error) { return MPICHG2(names(5), []int64{1}, treeOver(5, pools)) }, `
			0→2 [0] []; 2→0 [2] [];
			4→1 [4] []; 1→3 [1 4] [2]; 3→1 [3] []; 1→4 [1 3] [3 4] sender;
			0→1 [0 2] [0 1] sender; 1→0 [1 3 4] [2 4 5] sender;
			0→2 [1 3 4] [6 7] sender;
			1→4 [0 2] [6 7] sender; 1→3 [0 2] [6 9] sender`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.plan()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tr := range p.Transfers {
				origins := []int{}
				for _, b := range tr.Blocks {
					origins = append(origins, b.Origin)
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d→%d %v %v %s", tr.Src, tr.Dst, origins, tr.After, tr.Sync)))
			}
			want := strings.Split(strings.Join(strings.Fields(tt.want), " "), "; ")
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestMagPIeProperties: besides being an allgather, only coordinators talk between pools,
// each pool's data crosses to each other pool in one transfer, and no coordinator has
// two such transfers, or two broadcasts, that could run at once.
func TestMagPIeProperties(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(33)
		pools := randomPools(rng, n)
		sizes := make([]int64, n)
		for i := range sizes {
			sizes[i] = int64(rng.IntN(3)) * 1000
		}
		p, err := MagPIe(names(n), sizes, pools)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := prove(p); err != nil {
			t.Fatalf("seed %d: pools %v: %v", seed, pools, err)
		}
		poolOf := make([]int, n)
		for k, pool := range pools {
			for _, r := range pool {
				poolOf[r] = k
			}
		}
		crossings := map[[2]int]int{}
		sends := map[int][]int{} // host -> its sends after the gather, in order
		for _, tr := range p.Transfers {
			from, to := poolOf[tr.Src], poolOf[tr.Dst]
			coordinator := tr.Src == slices.Min(pools[from])
			if from != to {
				crossings[[2]int{from, to}]++
				if !coordinator || tr.Dst != slices.Min(pools[to]) || len(tr.Blocks) != len(pools[from]) {
					t.Fatalf("seed %d: pools %v: %d→%d of %d blocks is not between coordinators", seed, pools, tr.Src, tr.Dst, len(tr.Blocks))
				}
			}
			gather := from == to && !coordinator && tr.Dst == slices.Min(pools[to])
			if !gather {
				sends[tr.Src] = append(sends[tr.Src], tr.ID)
			}
		}
		if want := len(pools) * (len(pools) - 1); len(crossings) != want {
			t.Fatalf("seed %d: %d ordered pairs of pools exchange, want %d", seed, len(crossings), want)
		}
		for pair, k := range crossings {
			if k != 1 {
				t.Fatalf("seed %d: %v crossed %d times", seed, pair, k)
			}
		}
		for host, ids := range sends {
			for i := 1; i < len(ids); i++ {
				if !slices.Contains(p.Transfers[ids[i]].After, ids[i-1]) {
					t.Fatalf("seed %d: pools %v: host %d may send %d beside %d", seed, pools, host, ids[i], ids[i-1])
				}
			}
		}
	}
}

func randomPools(rng *rand.Rand, n int) [][]int {
	pools := make([][]int, 1+rng.IntN(min(n, 6)))
	for i, r := range rng.Perm(n) {
		k := i // the first ones make every pool non-empty
		if i >= len(pools) {
			k = rng.IntN(len(pools))
		}
		pools[k] = append(pools[k], r)
	}
	return pools
}

// TestOnePool: without a second pool MagPIe is a gather and a binomial broadcast.
func TestOnePool(t *testing.T) {
	for n := 1; n <= 33; n++ {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = n - 1 - i
		}
		p, err := MagPIe(names(n), []int64{5}, [][]int{pool})
		if err != nil {
			t.Fatal(err)
		}
		if err := prove(p); err != nil {
			t.Fatalf("n=%d: %v", n, err)
		}
		want := 0
		if n > 1 {
			want = 1 + log2ceil(n)
		}
		if got := iterations(p); got != want {
			t.Errorf("n=%d: a chain of %d transfers, want %d", n, got, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	one := []int64{1}
	magpie := func(pools ...[]int) func() (*plan.Plan, error) {
		return func() (*plan.Plan, error) { return MagPIe(names(3), one, pools) }
	}
	tests := []struct {
		name string
		plan func() (*plan.Plan, error)
		want string
	}{
		{"no hosts", func() (*plan.Plan, error) { return Ring(nil, one) }, "ring: no hosts"},
		{"sizes", func() (*plan.Plan, error) { return Bruck(names(3), []int64{1, 2}) }, "bruck: 2 block sizes for 3 hosts"},
		{"no sizes", func() (*plan.Plan, error) { return RecursiveDoubling(names(3), nil) }, "recursive-doubling: 0 block sizes"},
		{"negative", func() (*plan.Plan, error) { return SpreadingSimple(names(2), []int64{1, -2}) }, "spreading-simple: size -2 of block 1"},
		{"magpie hosts", func() (*plan.Plan, error) { return MagPIe(nil, one, nil) }, "magpie: no hosts"},
		{"no pools", magpie(), "magpie: rank 0 is in no pool"},
		{"rank left out", magpie([]int{0, 2}), "magpie: rank 1 is in no pool"},
		{"rank twice", magpie([]int{0, 1}, []int{1, 2}), "magpie: pool 1 holds rank 1, which is in a pool already"},
		{"unknown rank", magpie([]int{0, 1, 2, 3}), "magpie: pool 0 holds rank 3, want 0 … 2"},
		{"negative rank", magpie([]int{-1, 0, 1, 2}), "magpie: pool 0 holds rank -1"},
		{"odd", func() (*plan.Plan, error) { return NeighbourExchange(names(5), one) }, "neighbour-exchange: 5 hosts: it needs an even number"},
		{"no tree", func() (*plan.Plan, error) { return MPICHG2(names(3), one, nil) }, "mpich-g2: no pool tree"},
		{"tree of fewer hosts", func() (*plan.Plan, error) { return MPICHG2(names(3), one, treeOver(2, nil)) }, "mpich-g2: pool tree: root: 2 hosts of 3"},
		{"tree of other hosts", func() (*plan.Plan, error) {
			tree := treeOver(1, nil)
			tree.Hosts = []netmap.Host{{Name: "elsewhere"}}
			return MPICHG2(names(1), one, tree)
		}, `mpich-g2: pool tree is of other hosts: host 0 is "elsewhere" there`},
		{"empty pool", magpie([]int{0, 1, 2}, nil), "magpie: pool 1 is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.plan()
			if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", p, err, tt.want)
			}
		})
	}
}

// TestSizes: one size is MessageBytes, different ones are Sizes; no size is shared with the caller.
func TestSizes(t *testing.T) {
	sizes := []int64{3, 0, 5}
	p, err := Ring(names(3), sizes)
	if err != nil {
		t.Fatal(err)
	}
	sizes[0] = 99
	if !slices.Equal(p.Sizes, []int64{3, 0, 5}) || p.MessageBytes != 0 {
		t.Errorf("sizes %v, message %d bytes", p.Sizes, p.MessageBytes)
	}
	if p, err = Ring(names(3), []int64{4, 4, 4}); err != nil || p.Sizes != nil || p.MessageBytes != 4 {
		t.Errorf("%+v, %v; want 4 bytes a block", p, err)
	}
}
