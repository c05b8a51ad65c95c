package shuffle

import (
	"fmt"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

func BenchmarkPlan(b *testing.B) {
	for _, a := range algorithms(5) {
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

// BenchmarkTwoRounds is the plan with the most synchronisations: two rounds of n/2.
func BenchmarkTwoRounds(b *testing.B) {
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			hosts := names(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Group(hosts, plan.AlltoallSizes{Uniform: 1 << 16}, n/2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
