package treetest

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/openshop"
	"github.com/gridagent/gridagent/exchange/plan"
)

// TestUnevenBlocks: alltoalls of blocks that differ in size end near the bound on one switch whose ports hold 48 packets, and hardly lose any. Phases take 1.3 to 1.45 times the bound there.
func TestUnevenBlocks(t *testing.T) {
	if raceDetector {
		t.Skip("four alltoalls of 24 hosts: run without the race detector, which multiplies its CPU time by ten")
	}
	data, _ := configs.Topology("aapc-conf-a")
	topo, err := plan.ReadTopology("aapc-conf-a", data)
	if err != nil {
		t.Fatal(err)
	}
	n := len(topo.Hosts())
	for _, choice := range [][]int64{{0, 4096, 65536}, {0, 0, 0, 200_000}, {8000, 24000}, {1, 100, 10000, 1 << 20}} {
		rng := rand.New(rand.NewPCG(1, 77))
		sizes := plan.AlltoallSizes{Matrix: make([][]int64, n)}
		for i := range sizes.Matrix {
			sizes.Matrix[i] = make([]int64, n)
			for j := range sizes.Matrix[i] {
				sizes.Matrix[i][j] = choice[rng.IntN(len(choice))]
			}
		}
		p, err := openshop.Alltoall(topo.Hosts(), sizes, func(_, _ int, bytes int64) float64 { return float64(bytes) })
		if err != nil {
			t.Fatal(err)
		}
		net, err := plan.NetworkOfTopology(topo, 0)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := net.AlltoallBound(sizes)
		if err != nil {
			t.Fatal(err)
		}
		p.Bound = bound.Seconds
		LAN{Topology: topo, PortQueue: 48}.Measure(t, 1, []*plan.Plan{p}, func(r Reading) {
			t.Logf("blocks of %v: %.2f times the bound, %d packets lost", choice, r.Ratio(), r.Dropped)
			if r.Ratio() > 1.25 || r.Dropped > 40 {
				t.Errorf("blocks of %v: %.2f times the bound, %d packets lost", choice, r.Ratio(), r.Dropped)
			}
		})
	}
}
