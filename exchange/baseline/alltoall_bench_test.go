package baseline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

func BenchmarkAlltoall(b *testing.B) {
	all := slices.Clone(alltoalls)
	all = append(all, all[0])
	last := &all[len(all)-1]
	last.name, last.make = "hierarchical", func(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
		pools := make([][]int, 4)
		for r := range hosts {
			pools[r*4/len(hosts)] = append(pools[r*4/len(hosts)], r)
		}
		return AlltoallHierarchical(hosts, sizes, pools)
	}
	for _, a := range all {
		for _, n := range []int{8, 64, 256, 1024} {
			b.Run(fmt.Sprintf("%s/n=%d", a.name, n), func(b *testing.B) {
				hosts := names(n)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.make(hosts, plan.AlltoallSizes{Uniform: 1 << 16}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
