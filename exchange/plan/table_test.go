package plan

import (
	"math/rand/v2"
	"testing"
)

// TestTable: a table is a map, whether it is dense or not, and is empty after a reset.
func TestTable(t *testing.T) {
	var table Table
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(12)
		p := &Plan{Collective: Allgather, Hosts: hostNames(n), MessageBytes: 100}
		if seed%2 == 1 {
			p.Collective = Alltoall
		}
		if seed%3 == 0 {
			p.Cuts = []Cut{{Origin: 0, Dest: All, At: []int64{10, 20}}}
		}
		entries := rng.IntN(3) * rng.IntN(200)
		table.Reset(p, entries)
		type place struct {
			host int
			b    Block
		}
		want := make(map[place]int)
		for range 100 {
			at := place{rng.IntN(n), Block{Origin: rng.IntN(n), Dest: All}}
			if p.Collective == Alltoall {
				at.b.Dest = rng.IntN(n)
			}
			if p.Cuts != nil {
				at.b.Piece = rng.IntN(3)
			}
			was, known := want[at]
			if got, ok := table.At(at.host, at.b); ok != known || ok && got != was {
				t.Fatalf("seed %d: %v is %d, %t; want %d, %t (dense: %t)", seed, at, got, ok, was, known, table.sparse == nil)
			}
			want[at] = rng.IntN(1 << 30)
			table.Set(at.host, at.b, want[at])
		}
		for at, number := range want {
			if got, ok := table.At(at.host, at.b); !ok || got != number {
				t.Fatalf("seed %d: %v is %d, %t; want %d (dense: %t)", seed, at, got, ok, number, table.sparse == nil)
			}
		}
	}
}
