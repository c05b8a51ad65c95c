package baseline

import "testing"

// TestNeighbourExchange: N/2 iterations in which every rank sends, one block in the first
// and two in each other, to a neighbour on the ring (Chen et al.).
func TestNeighbourExchange(t *testing.T) {
	for n := 2; n <= 34; n += 2 {
		p, err := NeighbourExchange(names(n), []int64{7})
		if err != nil {
			t.Fatalf("n=%d: %v", n, err)
		}
		if err := prove(p); err != nil {
			t.Fatalf("n=%d: %v", n, err)
		}
		if got := iterations(p); got != n/2 {
			t.Errorf("n=%d: %d iterations, want %d", n, got, n/2)
		}
		if got := len(p.Transfers); got != n*n/2 {
			t.Errorf("n=%d: %d transfers, want %d", n, got, n*n/2)
		}
		for i, tr := range p.Transfers {
			want := 2
			if i < n {
				want = 1
			}
			if len(tr.Blocks) != want {
				t.Errorf("n=%d: transfer %d carries %d blocks, want %d", n, i, len(tr.Blocks), want)
			}
			if d := (tr.Dst - tr.Src + n) % n; d != 1 && d != n-1 {
				t.Errorf("n=%d: %d→%d is not between neighbours", n, tr.Src, tr.Dst)
			}
		}
	}
	if p, err := NeighbourExchange(names(1), []int64{7}); err != nil || len(p.Transfers) != 0 {
		t.Errorf("one rank: %+v, %v; want a plan without transfers", p, err)
	}
}
