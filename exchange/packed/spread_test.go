package packed

import (
	"math/rand/v2"
	"testing"
)

// TestMatesSendForEachOther: where blocks differ much, hosts of a pool send alike amounts of them over each link, and a host that alone has a block sends it
// little more than once. Without, it sends it to every pool and round its own ring.
func TestMatesSendForEachOther(t *testing.T) {
	const most = 4 << 20
	for name, size := range map[string]func(rank int) int64{
		"first":    func(rank int) int64 { return pick(rank == 0, most, 1<<10) },
		"third":    func(rank int) int64 { return pick(rank%3 == 0, most, 0) },
		"harmonic": func(rank int) int64 { return most / int64(rank+1) },
	} {
		for seed := range uint64(30) {
			net, pools := randomGrid(rand.New(rand.NewPCG(seed, 12)), []int{8, 4, 8}, []float64{1, 0.5, 0.125})
			sizes := make([]int64, 20)
			for i := range sizes {
				sizes[i] = size(i)
			}
			p := verified(t, net, pools, sizes)
			n, pool := len(p.Hosts), net.Pool
			over := make([]int64, n*3) // [host*3+pool]
			var links [3][3]int64
			var out [20]int64
			for i := range p.Transfers {
				x := &p.Transfers[i]
				bytes := p.Size(x.Blocks[0])
				out[x.Src] += bytes
				if from, to := pool[x.Src], pool[x.Dst]; from != to && pool[x.Blocks[0].Origin] == from {
					over[x.Src*3+to] += bytes
					links[from][to] += bytes
				}
			}
			for h := range n {
				for to := range 3 {
					all := links[pool[h]][to]
					mean := all / int64(len(pools[pool[h]]))
					if got := over[h*3+to]; all > most/4 && got > mean*9/8+burden {
						t.Errorf("%s, seed %d: host %d sends %d of the %d bytes from pool %d to pool %d, where one of %d would be %d",
							name, seed, h, got, all, pool[h], to, len(pools[pool[h]]), mean)
					}
				}
			}
			if name == "first" && out[0] > most*3/2 {
				t.Errorf("seed %d: the host that has the block sends %d bytes of %d", seed, out[0], most)
			}
		}
	}
}

// TestNobodySendsForEqualMates: with blocks of one size, a piece leaves its pool from the host where it starts or enters.
func TestNobodySendsForEqualMates(t *testing.T) {
	for seed := range uint64(20) {
		net, pools := randomGrid(rand.New(rand.NewPCG(seed, 13)), []int{5, 3, 8}, []float64{1, 0.5, 0.125})
		sizes := make([]int64, 16)
		for i := range sizes {
			sizes[i] = 256 << 10
		}
		p := verified(t, net, pools, sizes)
		for i := range p.Transfers {
			x := &p.Transfers[i]
			if net.Pool[x.Src] == net.Pool[x.Dst] || len(x.After) == 0 {
				continue
			}
			if by := p.Transfers[x.After[0]]; net.Pool[by.Src] == net.Pool[by.Dst] {
				t.Fatalf("seed %d: %d sends to %d what %d, of its own pool, gave it", seed, x.Src, x.Dst, by.Src)
			}
		}
	}
}

func pick(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}
