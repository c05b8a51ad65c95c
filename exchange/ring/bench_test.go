package ring

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// clusterOf is a network of the study as a breadth-first tree.
func clusterOf(b *testing.B, hosts int, hostsPerSwitch float64) *plan.Topology {
	b.Helper()
	rng := rand.New(rand.NewPCG(uint64(hosts), 11))
	g, _, err := randomNetwork(rng, hosts, hostsPerSwitch, 4)
	if err != nil {
		b.Fatal(err)
	}
	t, err := g.SpanningTree(plan.SpanBFS, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// BenchmarkOrder measures the rings alone. lr2 runs on chains with four hosts a switch,
// where it exists.
func BenchmarkOrder(b *testing.B) {
	for _, kind := range kinds {
		for n := 8; n <= 1024; n *= 2 {
			t := clusterOf(b, n, 5)
			if kind == KindLR2 {
				hosts := make([]int, n/4)
				for s := range hosts {
					hosts[s] = 4
				}
				t = topology(chainOf(n/4), hosts)
			}
			b.Run(fmt.Sprintf("%s/n=%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := Order(t, kind); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSparse measures LR3 where it works hardest: few hosts, long ways, and
// subtrees that offer a choice.
func BenchmarkSparse(b *testing.B) {
	for _, n := range []int{64, 256, 1024} {
		t := clusterOf(b, n, 0.5)
		b.Run(fmt.Sprintf("n=%d/switches=%d", n, len(t.Switches())), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				LR3(t)
			}
		})
	}
}

func BenchmarkAllgather(b *testing.B) {
	for _, n := range []int{64, 256} {
		t := clusterOf(b, n, 5)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Allgather(t, KindLR3, []int64{1 << 16}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
