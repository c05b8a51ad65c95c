package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/openshop"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
)

// oneLAN returns the alltoall of n hosts on one switch, whose pairs are read a little below or above what ports have.
func oneLAN(t *testing.T, rng *rand.Rand, n int) *Problem {
	p := &Problem{Collective: plan.Alltoall, Snapshot: cabling{home: dealt(n, 1), noise: 0.02}.snapshot(rng)}
	p.AAPC.Sync = phase.Auto
	var err error
	if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
		t.Fatal(err)
	}
	if len(p.Clusters()) != 1 {
		t.Fatalf("%d clusters", len(p.Clusters()))
	}
	return p
}

// TestUnevenBlocksTakeOpenShop: of blocks that differ in size inside one cluster, where ports cannot hold them, auto takes open-shop, near the bound; of blocks that are alike,
// or about so, it does not.
func TestUnevenBlocksTakeOpenShop(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 9))
		for _, tc := range []struct {
			choice []int64
			uneven bool
		}{
			{[]int64{0, 4 << 10, 64 << 10}, true}, {[]int64{1000, 2000, 64000}, true}, {[]int64{0, 0, 0, 200_000}, true},
			{[]int64{64 << 10}, false}, {[]int64{30_000, 34_000}, false},
		} {
			p := oneLAN(t, rng, 24)
			n := p.Snapshot.N()
			p.Alltoall.Matrix = make([][]int64, n)
			for i := range n {
				p.Alltoall.Matrix[i] = make([]int64, n)
				for j := range n {
					if i != j {
						p.Alltoall.Matrix[i][j] = tc.choice[rng.IntN(len(tc.choice))]
					}
				}
			}
			s, err := Select(p, 16<<10, Advice{})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Algorithm.Name == openshop.Name; got != tc.uneven {
				t.Errorf("seed %d, blocks of %v: it takes %s", seed, tc.choice, s.Algorithm.Name)
			}
			if ratio := s.Taken.Forecast / s.Bound.Seconds; ratio > 1.25 {
				t.Errorf("seed %d, blocks of %v: %s is forecast at %.2f times the bound", seed, tc.choice, s.Algorithm.Name, ratio)
			}
		}
	}
}
