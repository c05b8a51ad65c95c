package baseline

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestVerify hands every allgather to the verifier that judges every plan, with one size
// and with a size for each rank, some of them 0.
func TestVerify(t *testing.T) {
	for n := 1; n <= 33; n++ {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		leaves, tree, snap := randomPools(rng, n), randomTree(rng, n), randomSnapshot(rng, n)
		for _, sizes := range [][]int64{{1000}, {0}, blockSizes(rng, n)} {
			half := rng.IntN(2) == 0
			broadcasts := func(kind TreeKind) func() (*plan.Plan, error) {
				opt := TreeOptions{Kind: kind}
				if half {
					opt.Duplex = plan.HalfDuplex
				}
				return func() (*plan.Plan, error) { return BroadcastTrees(snap, tree, sizes, opt) }
			}
			timed := plan.Rules{Duplex: plan.FullDuplex, Snapshot: snap}
			if half {
				timed.Duplex = plan.HalfDuplex
			}
			clustered := timed
			clustered.Pools = tree.Sets()
			for _, tt := range []struct {
				name  string
				rules plan.Rules
				make  func() (*plan.Plan, error)
			}{
				{"simple", plan.Rules{}, func() (*plan.Plan, error) { return Simple(names(n), sizes) }},
				{"spreading", plan.Rules{}, func() (*plan.Plan, error) { return SpreadingSimple(names(n), sizes) }},
				{"ring", plan.Rules{}, func() (*plan.Plan, error) { return Ring(names(n), sizes) }},
				{"neighbour", plan.Rules{}, func() (*plan.Plan, error) { return NeighbourExchange(names(n), sizes) }},
				{"bruck", plan.Rules{}, func() (*plan.Plan, error) { return Bruck(names(n), sizes) }},
				{"doubling", plan.Rules{}, func() (*plan.Plan, error) { return RecursiveDoubling(names(n), sizes) }},
				{"magpie", plan.Rules{Pools: leaves}, func() (*plan.Plan, error) { return MagPIe(names(n), sizes, leaves) }},
				{"mpich-g2", plan.Rules{Pools: tree.Sets()}, func() (*plan.Plan, error) { return MPICHG2(names(n), sizes, tree) }},
				{"binomial", timed, broadcasts(Binomial)},
				{"mateescu", timed, broadcasts(Mateescu)},
				{"clustered", clustered, broadcasts(Clustered)},
			} {
				if tt.name == "neighbour" && n > 1 && n%2 == 1 {
					continue
				}
				p, err := tt.make()
				if err != nil {
					t.Fatalf("n=%d, sizes %v: %s: %v", n, sizes, tt.name, err)
				}
				if err := plan.Verify(p, tt.rules); err != nil {
					t.Errorf("n=%d, sizes %v, half duplex %v: %s: %v", n, sizes, half, tt.name, err)
				}
			}
		}
	}
}
