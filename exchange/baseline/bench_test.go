package baseline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// BenchmarkAllgather makes plans over sites of eight hosts, eight of which are near. Bytes
// an operation are mostly the plan: up to N² transfers.
func BenchmarkAllgather(b *testing.B) {
	sizes := []int64{64 << 10}
	for _, n := range []int{16, 64, 256, 1024} {
		var sites [][]int
		for h := range n {
			if h%8 == 0 {
				sites = append(sites, nil)
			}
			sites[h/8] = append(sites[h/8], h)
		}
		tree := treeOver(n, sites)
		s := snapshotOf(n, func(from, to int) netmap.Estimate {
			switch {
			case from/8 == to/8:
				return even(50*time.Microsecond, 150*time.Microsecond, 20*time.Microsecond)
			case from/64 == to/64:
				return even(10*time.Millisecond, 11*time.Millisecond, 20*time.Microsecond)
			}
			return even(50*time.Millisecond, 60*time.Millisecond, 20*time.Microsecond)
		})
		broadcasts := func(kind TreeKind, duplex plan.Duplex) func() (*plan.Plan, error) {
			return func() (*plan.Plan, error) {
				return BroadcastTrees(s, tree, sizes, TreeOptions{Kind: kind, Duplex: duplex})
			}
		}
		for _, bb := range []struct {
			name string
			make func() (*plan.Plan, error)
		}{
			{"simple", func() (*plan.Plan, error) { return Simple(names(n), sizes) }},
			{"spreading-simple", func() (*plan.Plan, error) { return SpreadingSimple(names(n), sizes) }},
			{"ring", func() (*plan.Plan, error) { return Ring(names(n), sizes) }},
			{"neighbour-exchange", func() (*plan.Plan, error) { return NeighbourExchange(names(n), sizes) }},
			{"recursive-doubling", func() (*plan.Plan, error) { return RecursiveDoubling(names(n), sizes) }},
			{"bruck", func() (*plan.Plan, error) { return Bruck(names(n), sizes) }},
			{"magpie", func() (*plan.Plan, error) { return MagPIe(names(n), sizes, sites) }},
			{"mpich-g2", func() (*plan.Plan, error) { return MPICHG2(names(n), sizes, tree) }},
			{"binomial", broadcasts(Binomial, plan.FullDuplex)},
			{"mateescu", broadcasts(Mateescu, plan.FullDuplex)},
			{"mateescu-half", broadcasts(Mateescu, plan.HalfDuplex)},
			{"clustered", broadcasts(Clustered, plan.FullDuplex)},
		} {
			if n > 256 && strings.HasPrefix(bb.name, "mateescu") {
				continue // minutes, see ordering
			}
			b.Run(fmt.Sprintf("%s/n=%d", bb.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := bb.make(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
