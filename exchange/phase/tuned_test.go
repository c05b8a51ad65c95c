package phase

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestTuned: the choices that docs/switches.md gives reasons for.
func TestTuned(t *testing.T) {
	const kib = 1 << 10
	four := tree{switches: 4, links: [][2]int{{0, 1}, {0, 2}, {0, 3}}} // as aapc-conf-b
	for h := range 32 {
		four.home = append(four.home, h/8)
	}
	fast := four.topology(t)
	two := tree{switches: 2, links: [][2]int{{0, 1}}, home: make([]int, 24)} // one host is elsewhere
	two.home[23] = 1
	lopsided := two.topology(t)
	for _, tc := range []struct {
		name  string
		topo  *plan.Topology
		sizes plan.AlltoallSizes
		want  Options
	}{
		{"fits into a port", oneSwitchOf(24).topology(t), plan.AlltoallSizes{Uniform: 2 * kib}, Options{}},
		{"short", oneSwitchOf(24).topology(t), plan.AlltoallSizes{Uniform: 4 * kib}, Options{Sync: Order}},
		{"longer on one switch", oneSwitchOf(24).topology(t), plan.AlltoallSizes{Uniform: 128 * kib}, Options{Sync: Order}},
		{"uneven on one switch", oneSwitchOf(32).topology(t), oneLarge(32, 8*kib), Options{Sync: Sender}},
		{"not with trunks", fast, plan.AlltoallSizes{Uniform: 1 * kib}, Options{Sync: Sender}},
		{"short, in step", fast.WithBandwidth(100 * netmap.Mbps), plan.AlltoallSizes{Uniform: 4 * kib}, Options{Sync: Barrier, Lead: 3 * kib}},
		{"three quarters of a block", fast.WithBandwidth(100 * netmap.Mbps), plan.AlltoallSizes{Uniform: 16 * kib}, Options{Sync: Barrier, Lead: 12 * kib}},
		{"long", fast.WithBandwidth(100 * netmap.Mbps), plan.AlltoallSizes{Uniform: 64 * kib}, Options{Sync: Barrier, Lead: 20 * kib}},
		{"a gigabit", fast.WithBandwidth(1000 * netmap.Mbps), plan.AlltoallSizes{Uniform: 256 * kib}, Options{Sync: Barrier, Lead: 52 * kib}},
		{"the largest counts", fast.WithBandwidth(100 * netmap.Mbps), oneLarge(32, 64*kib), Options{Sync: Barrier, Lead: 20 * kib}},
		{"too many to keep in step", lopsided.WithBandwidth(100 * netmap.Mbps), plan.AlltoallSizes{Uniform: 64 * kib}, Options{Sync: Receiver, Lead: 16 * kib}},
		{"a gigabit on one switch", oneSwitchOf(24).topology(t).WithBandwidth(1000 * netmap.Mbps), plan.AlltoallSizes{Uniform: 256 * kib}, Options{Sync: Receiver, Lead: 32 * kib}},
		{"half of a block", lopsided.WithBandwidth(1000 * netmap.Mbps), plan.AlltoallSizes{Uniform: 32 * kib}, Options{Sync: Receiver, Lead: 16 * kib}},
		{"nothing", fast, plan.AlltoallSizes{}, Options{}},
		{"one host", oneSwitchOf(1).topology(t), plan.AlltoallSizes{Uniform: 64 * kib}, Options{}},
	} {
		got := Tuned(tc.topo, tc.sizes)
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		auto, err := Schedule(tc.topo, tc.sizes, Options{Sync: Auto})
		if err != nil {
			t.Fatal(err)
		}
		named, err := Schedule(tc.topo, tc.sizes, tc.want)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(auto, named) {
			t.Errorf("%s: the plan of auto is not that of %+v", tc.name, tc.want)
		}
	}
}

// oneLarge are the sizes of an alltoall with one block.
func oneLarge(n int, size int64) plan.AlltoallSizes {
	s := plan.AlltoallSizes{Matrix: make([][]int64, n)}
	for i := range s.Matrix {
		s.Matrix[i] = make([]int64, n)
	}
	s.Matrix[n-1][0] = size
	return s
}

// TestLead: a lead is some packets and what passes in the time of the news, in bounds for any rate.
func TestLead(t *testing.T) {
	last := int64(0)
	for _, rate := range []netmap.BytesPerSec{1, 10 * netmap.Mbps, 100 * netmap.Mbps, 1000 * netmap.Mbps, 10_000 * netmap.Mbps, 1e18} {
		lead := Lead(rate)
		if lead < newsPackets || lead > 2<<20 || lead < last || lead%leadUnit != 0 {
			t.Errorf("a lead of %d bytes at %v B/s, after %d", lead, float64(rate), last)
		}
		last = lead
	}
	if Lead(0) != Lead(100*netmap.Mbps) {
		t.Errorf("a lead of %d bytes at a rate that is not known", Lead(0))
	}
}

// TestAutoOnRandomTrees: what auto makes for trees and sizes drawn at random is proved on the tree.
func TestAutoOnRandomTrees(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 77))
		w := randomTree(rng, 1+rng.IntN(5), []int{1, 2, 3, 5, 7, 13}[rng.IntN(6)])
		topo := w.topology(t)
		sizes := plan.AlltoallSizes{Matrix: make([][]int64, len(w.home))}
		for i := range sizes.Matrix {
			sizes.Matrix[i] = make([]int64, len(w.home))
			for j := range sizes.Matrix[i] {
				sizes.Matrix[i][j] = []int64{0, 1, 4096, 100_000}[rng.IntN(4)]
			}
		}
		p, err := Schedule(topo, sizes, Options{Sync: Auto})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := plan.Verify(p, plan.Rules{Topology: topo}); err != nil {
			t.Errorf("seed %d, %v: %v", seed, w, err)
		}
	}
}
