package packed

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
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

// TestNobodySendsForEqualMates: with blocks of one size, a piece leaves its pool from the host where it starts.
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
			if net.Pool[x.Src] == net.Pool[x.Dst] || len(x.After) == 0 || net.Pool[x.Blocks[0].Origin] != net.Pool[x.Src] {
				continue
			}
			if by := p.Transfers[x.After[0]]; net.Pool[by.Src] == net.Pool[by.Dst] {
				t.Fatalf("seed %d: %d sends to %d what %d, of its own pool, gave it", seed, x.Src, x.Dst, by.Src)
			}
		}
	}
}

// TestRelaysLeaveEvenly: over a link that takes several flows no host sends more than others have to, but for a piece or two. Without, whoever brings in most sends most.
func TestRelaysLeaveEvenly(t *testing.T) {
	relayed := 0
	for seed := range uint64(40) {
		net, pools := randomGrid(rand.New(rand.NewPCG(seed, 14)), []int{5, 4, 6, 1}, []float64{0.2, 0.25, 0.3})
		sizes := make([]int64, 16)
		for i := range sizes {
			sizes[i] = 256 << 10
		}
		p := verified(t, net, pools, sizes)
		pool := net.Pool
		own, sent := make([]int64, 16*4), make([]int64, 16*4) // [host*4+pool]
		var piece [16]int64                                   // [from*4+to], the largest that is relayed
		links := make([]int, 16)
		for i := range p.Transfers {
			x := &p.Transfers[i]
			bytes, from, to := p.Size(x.Blocks[0]), pool[x.Src], pool[x.Dst]
			if from == to {
				continue
			}
			sent[x.Src*4+to] += bytes
			if pool[x.Blocks[0].Origin] == from {
				own[x.Src*4+to] += bytes
			} else {
				piece[from*4+to] = max(piece[from*4+to], bytes)
				links[from*4+to]++
			}
		}
		for from, hosts := range pools {
			for to := range pools {
				var mean, most, had int64
				for _, h := range hosts {
					mean += sent[h*4+to] / int64(len(hosts))
					most, had = max(most, sent[h*4+to]), max(had, own[h*4+to])
				}
				if links[from*4+to] < 2*len(hosts) || len(hosts) == 1 {
					continue
				}
				relayed++
				if most > max(mean, had)+2*piece[from*4+to]+mean/16 {
					t.Errorf("seed %d: of %v one sends %d bytes to pool %d, where one of %d would be %d; pieces of %d at most", seed, hosts, most, to, len(hosts), mean, piece[from*4+to])
				}
			}
		}
	}
	if relayed < 5 {
		t.Errorf("%d links with relays", relayed)
	}
}

// TestLoneHostsOpenALink: over a link that one flow fills, and that holds more than a connection has under way at first, a host alone at its site sends over as many pairs as fill
// it at once, if it has so many pieces.
func TestLoneHostsOpenALink(t *testing.T) {
	several := 0
	for seed := range uint64(20) {
		net, pools := randomGrid(rand.New(rand.NewPCG(seed, 15)), []int{4, 4, 1}, []float64{1})
		sizes := make([]int64, 9)
		for i := range sizes {
			sizes[i] = 64 << 10
		}
		p, s := verified(t, net, pools, sizes), newSites(net, sizes)
		pieces, pairs := make([]int, 3), make([]map[int]bool, 3)
		for i := range p.Transfers {
			if x := &p.Transfers[i]; x.Src == 8 {
				to := net.Pool[x.Dst]
				if pairs[to] == nil {
					pairs[to] = make(map[int]bool)
				}
				pieces[to]++
				pairs[to][x.Dst] = true
			}
		}
		for to := range 2 {
			e := 2*3 + to
			want := min(int(math.Ceil(2*s.latency[e]*float64(s.capacity[e])/firstWindow-spare)), pieces[to], 4)
			if len(pairs[to]) < want {
				t.Errorf("seed %d: the lone host sends %d pieces to pool %d over %d pairs, want %d", seed, pieces[to], to, len(pairs[to]), want)
			}
			if want > 1 {
				several++
			}
		}
	}
	if several < 5 {
		t.Errorf("%d links took several", several)
	}
}

func pick(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}

// TestHostsBeginTogether: where mates send for a host that alone has a block, each of them has its first piece for a link before another one sends its second there. One whose first pieces came
// last, as they were a kilobyte smaller than all others, had its part of a link idle for 0.3 s of 2.5.
func TestHostsBeginTogether(t *testing.T) {
	for seed := range uint64(30) {
		net, pools := randomGrid(rand.New(rand.NewPCG(seed, 15)), []int{8, 4, 8}, []float64{1, 0.5, 0.125})
		sizes := make([]int64, 20)
		sizes[0] = 5 << 20
		p := verified(t, net, pools, sizes)
		for to := 1; to < len(pools); to++ {
			times, begun := make(map[int]int), 0
			second := make(map[int]bool)
			for i := range p.Transfers {
				x := &p.Transfers[i]
				if net.Pool[x.Src] != 0 || net.Pool[x.Dst] != to {
					continue
				}
				if times[x.Src]++; times[x.Src] == 1 {
					begun++
					if len(second) > 0 {
						t.Errorf("seed %d: host %d sends its first piece to pool %d after %v have sent two", seed, x.Src, to, second)
					}
				}
				if times[x.Src] == 2 {
					second[x.Src] = true
				}
			}
			if begun == 0 {
				t.Errorf("seed %d: nobody sends to pool %d", seed, to)
			}
		}
	}
}

// TestEqualRelaysLeaveEvenly: of relayed pieces that are alike each host that sends them on has as many as the others, but for one, whatever was measured of the links to the last percent. (On the held 3-site grid one of
// four hosts sent 1.8 MB where the mean was 1.65, over two pairs of hosts that something held to a rate, and every second grid took 1.41 times the bound in place of 1.11.)
func TestEqualRelaysLeaveEvenly(t *testing.T) {
	grid, err := gridfile.Load("../../configs/grids/paper-3site-held.yaml")
	if err != nil {
		t.Fatal(err)
	}
	declared, err := grid.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	pools, site := make([][]int, 3), make(map[string]int)
	for h, host := range declared.Hosts() {
		if _, ok := site[host.Site]; !ok {
			site[host.Site] = len(site)
		}
		pools[site[host.Site]] = append(pools[site[host.Site]], h)
	}
	relays := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 16))
		n := declared.N()
		var seen [9]float64 // as a part of what is declared: of what several flows get
		for i := range seen {
			seen[i] = 0.95 + 0.01*rng.Float64()
		}
		est := make([]netmap.Estimate, n*n)
		for a := range n {
			for b := range n {
				e := declared.Estimate(a, b)
				if a != b && e.Has(netmap.FieldCapacity) {
					e.Bandwidth *= netmap.BytesPerSec(0.951 + 0.003*rng.Float64())
					e.Capacity *= netmap.BytesPerSec(seen[3*site[declared.Host(a).Site]+site[declared.Host(b).Site]])
				}
				est[a*n+b] = e
			}
		}
		net, err := plan.NetworkOf(netmap.NewSnapshot(1, declared.Hosts(), est), pools, 1)
		if err != nil {
			t.Fatal(err)
		}
		p := verified(t, net, pools, slices.Repeat([]int64{1 << 20}, n))
		for from, hosts := range pools {
			for to := range pools {
				sent, piece := make(map[int]int64), int64(0)
				for i := range p.Transfers {
					x := &p.Transfers[i]
					if net.Pool[x.Src] != from || net.Pool[x.Dst] != to || from == to {
						continue
					}
					sent[x.Src] += p.Size(x.Blocks[0])
					if net.Pool[x.Blocks[0].Origin] != from {
						piece = max(piece, p.Size(x.Blocks[0]))
					}
				}
				if piece == 0 || len(sent) < len(hosts) {
					continue
				}
				relays++
				least, most := int64(math.MaxInt64), int64(0)
				for _, bytes := range sent {
					least, most = min(least, bytes), max(most, bytes)
				}
				if most-least > piece+piece/2 {
					t.Errorf("seed %d: of the hosts of pool %d one sends %d bytes to pool %d, and one %d; pieces of %d at most", seed, from, most, to, least, piece)
				}
			}
		}
	}
	if relays < 40 {
		t.Errorf("%d links with relays", relays)
	}
}
