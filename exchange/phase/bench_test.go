package phase

import (
	"fmt"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// racks is a core switch with racks of 16 machines, or two of half of them.
func racks(machines int) tree {
	n := max(2, machines/16)
	w := tree{switches: 1 + n}
	for i := range n {
		w.links = append(w.links, [2]int{0, i + 1})
	}
	for h := range machines {
		w.home = append(w.home, 1+h*n/machines)
	}
	return w
}

// halves is two switches with half of the machines each: the most phases there can be.
func halves(machines int) tree {
	w := tree{switches: 2, links: [][2]int{{0, 1}}}
	for h := range machines {
		w.home = append(w.home, h*2/machines)
	}
	return w
}

// oneSwitch needs the least phases.
func oneSwitchOf(machines int) tree { return tree{switches: 1, home: make([]int, machines)} }

// BenchmarkSchedule: edges/op is what synchronisation costs when the plan runs.
func BenchmarkSchedule(b *testing.B) {
	for _, shape := range []struct {
		name string
		tree func(int) tree
	}{{"switch", oneSwitchOf}, {"racks", racks}, {"halves", halves}} {
		for _, opt := range []Options{
			{Sync: None}, {Sync: Receiver},
			{Sync: Dummy}, {Sync: Barrier}, {Sync: Receiver, Block: 16, Strict: true},
		} {
			name := opt.Sync.String()
			if opt.Strict {
				name = fmt.Sprintf("strict%d", opt.Block)
			}
			for n := 8; n <= 1024; n *= 2 {
				if n > 256 && opt.Sync != None && opt.Sync != Receiver || n > 256 && opt.Strict {
					continue // what they are for stays below
				}
				topo := shape.tree(n).topology(b)
				b.Run(fmt.Sprintf("%s/sync=%s/n=%d", shape.name, name, n), func(b *testing.B) {
					b.ReportAllocs()
					edges, phases := 0, 0
					for b.Loop() {
						p, err := Schedule(topo, plan.AlltoallSizes{Uniform: 1}, opt)
						if err != nil {
							b.Fatal(err)
						}
						edges, phases = 0, p.Phases
						for i := range p.Transfers {
							edges += len(p.Transfers[i].After)
						}
					}
					b.ReportMetric(float64(edges), "edges/op")
					b.ReportMetric(float64(phases), "phases/op")
				})
			}
		}
	}
}
