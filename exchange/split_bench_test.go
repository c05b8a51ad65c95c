package exchange

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkSplit cuts an allgather along random trees, some blocks in pieces, into parts.
func BenchmarkSplit(b *testing.B) {
	for _, n := range []int{20, 64} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 30))
			p := treePlan(rng, n)
			p.MessageBytes = 64 << 10
			p = inPieces(rng, p)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Split(p, ID{}, 0, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
