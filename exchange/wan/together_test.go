package wan

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestTogether: of short blocks those that follow one another between two hosts are one transfer, of no more than a piece and of what one transfer brings.
func TestTogether(t *testing.T) {
	for seed := range uint64(40) {
		n := randomGrid(rand.New(rand.NewPCG(seed, 71)), 3, 8)
		for _, size := range []int64{1, 256, 3000, 40_000} {
			p, _ := made(t, seed, n, plan.AlltoallSizes{Uniform: size}, nil, Options{})
			blocks, across, pairs := 0, 0, make(map[[2]int]bool)
			for _, tr := range p.Transfers {
				if len(tr.Blocks) > 1 && p.Bytes(&tr) > piece {
					t.Fatalf("seed %d, blocks of %d: %d bytes in one transfer", seed, size, p.Bytes(&tr))
				}
				if tr.Sync == "" && len(tr.After) > 1 {
					t.Fatalf("seed %d, blocks of %d: a transfer waits for %d", seed, size, len(tr.After))
				}
				if n.Pool[tr.Src] != n.Pool[tr.Dst] {
					blocks, across = blocks+len(tr.Blocks), across+1
					pairs[[2]int{tr.Src, tr.Dst}] = true
				}
			}
			// What an origin sends, what its mates give it to send, and what comes from another site, of each origin there by itself.
			if size <= 256 && len(n.Hosts) > 12 && across > 6*len(pairs) {
				t.Errorf("seed %d: %d transfers of %d blocks of %d bytes between %d pairs of hosts", seed, across, blocks, size, len(pairs))
			}
		}
	}
}
