package packed

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUncross: what pools 1 and 2 relay to 0 for each other goes straight; a relay that spares a full link stays.
func TestUncross(t *testing.T) {
	s := &sites{n: 3, latency: make([]float64, 9), bytes: []int64{0, 1000 << 10, 1000 << 10}}
	for range 9 {
		s.capacity = append(s.capacity, 1e6)
	}
	crossed := []tree{
		{root: 1, parent: []int{1, -1, 1}, bytes: 600 << 10},
		{root: 1, parent: []int{2, -1, 1}, bytes: 400 << 10},
		{root: 2, parent: []int{1, 2, -1}, bytes: 500 << 10},
		{root: 2, parent: []int{2, 2, -1}, bytes: 500 << 10},
	}
	u := uncrosser{sites: s, trees: slices.Clone(crossed), load: make([]float64, 9)}
	u.run()
	var relayed, all int64
	for _, x := range u.trees {
		if all += x.bytes; x.relays() > 0 {
			relayed += x.bytes
		}
	}
	if all != 2000<<10 {
		t.Errorf("%d bytes of %d are left", all, 2000<<10)
	}
	// 400 KiB were relayed for each other, and 100 KiB more balance the two links into pool 0.
	if relayed > 101<<10 || relayed < 99<<10 {
		t.Errorf("%d bytes are relayed, want 100 KiB: %+v", relayed, u.trees)
	}
}

// TestFewPairs: over every link go about as many pairs of hosts as flows fill it, and never more than that and one for each host.
func TestFewPairs(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 9))
		hosts := []int{1 + rng.IntN(8), 1 + rng.IntN(8), 1 + rng.IntN(8)}
		net, pools := randomGrid(rng, hosts, []float64{0.125})
		p := verified(t, net, pools, slices.Repeat([]int64{1 << 20}, len(net.Pool)))
		pairs := make(map[[2]int]map[[2]int]bool)
		for i := range p.Transfers {
			x := &p.Transfers[i]
			if link := [2]int{net.Pool[x.Src], net.Pool[x.Dst]}; link[0] != link[1] {
				if pairs[link] == nil {
					pairs[link] = make(map[[2]int]bool)
				}
				pairs[link][[2]int{x.Src, x.Dst}] = true
			}
		}
		for link, used := range pairs {
			if most := 8 + hosts[link[0]]; len(used) > most {
				t.Errorf("seed %d, sites of %v hosts: %d pairs carry link %v, which 8 flows fill; want at most %d", seed, hosts, len(used), link, most)
			}
		}
	}
}
