package packed

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPairsAreEven: of the pairs over which a host sends to a pool none has more than the largest pieces first, each to the pair that has least, leave
// the fullest. As pieces come, 649 of 1041 KB went over one of two pairs.
func TestPairsAreEven(t *testing.T) {
	type way struct{ src, pool int }
	several := 0
	for seed := range uint64(60) {
		net, pools := randomGrid(rand.New(rand.NewPCG(seed, 15)), []int{8, 4, 8}, []float64{0.25, 0.125})
		sizes := slices.Repeat([]int64{1 << 20}, 20)
		p := verified(t, net, pools, sizes)
		pieces, over := make(map[way][]int64), make(map[way]map[int]int64)
		for i := range p.Transfers {
			x := &p.Transfers[i]
			w, bytes := way{x.Src, net.Pool[x.Dst]}, p.Size(x.Blocks[0])
			if net.Pool[x.Src] == w.pool {
				continue
			}
			if over[w] == nil {
				over[w] = make(map[int]int64)
			}
			over[w][x.Dst] += bytes
			pieces[w] = append(pieces[w], bytes)
		}
		for w, pairs := range over {
			if len(pairs) < 2 {
				continue
			}
			several++
			slices.Sort(pieces[w])
			dealt := make([]int64, len(pairs))
			for _, bytes := range slices.Backward(pieces[w]) {
				slices.Sort(dealt)
				dealt[0] += bytes
			}
			for dst, bytes := range pairs {
				if most := slices.Max(dealt); bytes > most {
					t.Errorf("seed %d: host %d sends %d bytes to host %d, and could send no more than %d to any in its pool", seed, w.src, bytes, dst, most)
				}
			}
		}
	}
	if several < 100 {
		t.Errorf("%d ways have several pairs of hosts: the grids say nothing", several)
	}
}
