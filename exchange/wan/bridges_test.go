package wan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// extremes are sizes that are hard to balance, over n hosts.
var extremes = map[string]func(rng *rand.Rand, n int) plan.AlltoallSizes{
	"uniform": func(*rand.Rand, int) plan.AlltoallSizes { return plan.AlltoallSizes{Uniform: 64 << 10} },
	"one pair": func(rng *rand.Rand, n int) plan.AlltoallSizes { // has a thousand times what others have
		s := filled(n, func(int, int) int64 { return 4 << 10 })
		s.Matrix[0][n-1], s.Matrix[n-1][0] = 4<<20, 4<<20
		return s
	},
	"one block": func(rng *rand.Rand, n int) plan.AlltoallSizes { // among bytes
		s := filled(n, func(int, int) int64 { return 1 })
		s.Matrix[0][n-1] = 16 << 20
		return s
	},
	"silent host": func(rng *rand.Rand, n int) plan.AlltoallSizes {
		k := rng.IntN(n)
		return filled(n, func(a, b int) int64 {
			if a == k || b == k {
				return 0
			}
			return 64 << 10
		})
	},
	"one source": func(rng *rand.Rand, n int) plan.AlltoallSizes {
		k := rng.IntN(n)
		return filled(n, func(a, b int) int64 {
			if a == k {
				return 256 << 10
			}
			return 0
		})
	},
	"drawn": func(rng *rand.Rand, n int) plan.AlltoallSizes {
		return filled(n, func(int, int) int64 { return rng.Int64N(1<<uint(rng.IntN(20))) / 3 })
	},
}

func filled(n int, size func(a, b int) int64) plan.AlltoallSizes {
	m := make([][]int64, n)
	for a := range m {
		m[a] = make([]int64, n)
		for b := range m[a] {
			if a != b {
				m[a][b] = size(a, b)
			}
		}
	}
	return plan.AlltoallSizes{Matrix: m}
}

// TestExtremes: over 2 to 5 unequal sites, whatever the sizes, a plan takes little more than the relayed bound, the
// longest way of a byte and what a piece takes where it is forwarded.
func TestExtremes(t *testing.T) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range extremes {
			if !yield(k) {
				return
			}
		}
	}) {
		var ratios []float64
		worst := ""
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, 77))
			n := randomGrid(rng, 2+int(seed)%4, 7)
			sizes := extremes[name](rng, len(n.Hosts))
			p, bounds := made(t, seed, n, sizes, nil, Options{})
			if bounds.Routing == nil {
				continue // nothing crosses a link
			}
			// The engine opens as many connections as a pair's part of a link takes.
			for i := range n.Ceiling {
				n.Ceiling[i] = 200 * netmap.Mbps
			}
			const chunk = 8 << 10
			way := 0.0
			for i := range n.Latency {
				way = max(way, n.Latency[i].Seconds())
			}
			took := simulated(t, seed, p, n, chunk)
			if took < bounds.Relayed.Seconds {
				t.Fatalf("seed %d, %s: %v s, under the bound %v", seed, name, took, bounds.Relayed)
			}
			ratio := took / (bounds.Relayed.Seconds + 2*way)
			if len(ratios) == 0 || ratio > slices.Max(ratios) {
				worst = fmt.Sprintf("seed %d: %d pools, %d hosts, %.3f s, bound %v", seed, n.Pools(), len(n.Hosts), took, bounds.Relayed)
			}
			ratios = append(ratios, ratio)
		}
		slices.Sort(ratios)
		most := 1.05
		switch name {
		case "one pair":
			most = 1.22 // ports
		case "one block":
			most = 1.1 // a piece for each bridge, over up to four links
		}
		if ratios[len(ratios)-1] > most {
			t.Errorf("%s: %.3f times the bound and the longest way, want at most %v: %s", name, ratios[len(ratios)-1], most, worst)
		}
		t.Logf("%-12s median %.3f, nine of ten %.3f, worst %.3f (%s)", name, ratios[len(ratios)/2], ratios[len(ratios)*9/10], ratios[len(ratios)-1], worst)
	}
}

// TestBridges: all bridges of a link carry alike, to within a piece and a sixteenth, and blocks are whole again where
// they are wanted.
func TestBridges(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 78))
		n := randomGrid(rng, 2+int(seed)%4, []int{1, 2, 3, 5, 7, 13}[seed%6])
		opts := Options{}
		if seed%2 == 0 {
			opts.Blind = make([]bool, n.Pools()*n.Pools())
			opts.Blind[rng.IntN(len(opts.Blind))] = true
		}
		sizes := plan.AlltoallSizes{Uniform: 64 << 10}
		p, bounds := made(t, seed, n, sizes, nil, opts)
		s := newScheduler(n, sizes, opts)
		if s.opts.Transit = defaultTransit; bounds.Routing == nil {
			continue
		}
		if _, when := s.bridged(bounds, bounds.Routing); !when.fits || when.held {
			continue
		}
		carried, load := make(map[[2]int]int64), make([]float64, n.Pools()*n.Pools())
		for i := range p.Transfers {
			tr := &p.Transfers[i]
			carried[[2]int{tr.Src, tr.Dst}] += p.Bytes(tr)
			if link, ok := s.between(tr.Src, tr.Dst); ok {
				load[link] += float64(p.Bytes(tr))
			}
		}
		for k, link := range s.bridgesOf(load) {
			if len(link) < 2 {
				continue
			}
			var all int64
			pairs := make(map[[2]int]int64)
			for _, g := range link {
				pairs[[2]int{g.near, g.far}]++
			}
			for pair := range pairs {
				all += carried[pair]
			}
			for pair, share := range pairs {
				want := float64(all) * float64(share) / float64(len(link))
				if got := float64(carried[pair]); got < 0.9*want-4*4096 || got > 1.1*want+4*4096 {
					t.Errorf("seed %d: link %d→%d: bridge %v of %d carries %.0f bytes, want %.0f", seed, k/n.Pools(), k%n.Pools(), pair, len(link), got, want)
				}
			}
		}
	}
}

// TestAllPairs: over a link that holds what all pairs of hosts have under way, each block goes straight from its origin to its destination, whatever the sizes; over
// one where none needs a window, those that are alike and fill a lane. Over one that is too slow for that, of which nobody knows what it carries or which loses packets none does, but for what [scheduler.short] says.
func TestAllPairs(t *testing.T) {
	const hosts, port = 5, 100 * netmap.Mbps
	for _, tt := range []struct {
		name       string
		rate, flow netmap.BytesPerSec
		latency    time.Duration
		always     bool  // whatever the sizes
		least      int64 // the smallest and the largest block of all that are alike which go straight
		most       int64
		opts       Options
	}{
		{"faster than ports", 300 * netmap.Mbps, port, 15 * time.Millisecond, true, 0, 64 << 10, Options{}},
		{"as fast as one", port, port, 15 * time.Millisecond, true, 0, 64 << 10, Options{}},
		{"slower than ports", 50 * netmap.Mbps, 50 * netmap.Mbps, 30 * time.Millisecond, true, 0, 64 << 10, Options{}},
		{"slow", 10 * netmap.Mbps, 10 * netmap.Mbps, 30 * time.Millisecond, false, 2 * LaneFill, 20 << 10, Options{}},
		{"slow and far", 10 * netmap.Mbps, 10 * netmap.Mbps, 120 * time.Millisecond, true, 0, 64 << 10, Options{}},
		{"between them", 10 * netmap.Mbps, 10 * netmap.Mbps, 106 * time.Millisecond, false, 1, 0, Options{}},
		{"short", port, port, time.Millisecond, false, 2 * LaneFill, 64 << 10, Options{}},
		{"held flows", 80 * netmap.Mbps, 10 * netmap.Mbps, 60 * time.Millisecond, false, LaneFill, 64 << 10, Options{}},
		{"that do not fill it", 80 * netmap.Mbps, 3 * netmap.Mbps, 60 * time.Millisecond, false, 0, LaneFill, Options{}},
		{"that losses hold", 80 * netmap.Mbps, 10 * netmap.Mbps, 60 * time.Millisecond, false, 1, 0, Options{Lossy: []bool{false, true, false, false}}},
		{"that nobody knows", 80 * netmap.Mbps, 10 * netmap.Mbps, 60 * time.Millisecond, false, 1, 0, Options{Blind: []bool{false, false, true, false}}},
	} {
		n := &plan.Network{Pipe: []netmap.BytesPerSec{0, tt.rate, tt.rate, 0}}
		for h := range 2 * hosts {
			n.Hosts, n.Pool = append(n.Hosts, fmt.Sprintf("h%d", h)), append(n.Pool, h/hosts)
			n.Egress, n.Ingress = append(n.Egress, port), append(n.Ingress, port)
			for o := range 2 * hosts {
				ceiling, latency := netmap.BytesPerSec(port), 50*time.Microsecond
				if h/hosts != o/hosts {
					ceiling, latency = tt.flow, tt.latency
				}
				n.Ceiling, n.Latency = append(n.Ceiling, ceiling), append(n.Latency, latency)
			}
		}
		passed := func(sizes plan.AlltoallSizes) (k int) { // transfers of blocks of other hosts, or for others
			p, _ := made(t, 1, n, sizes, nil, tt.opts)
			for i := range p.Transfers {
				for _, b := range p.Transfers[i].Blocks {
					if n.Pool[b.Origin] != n.Pool[b.Dest] && (b.Origin != p.Transfers[i].Src || b.Dest != p.Transfers[i].Dst) {
						k++
					}
				}
			}
			return k
		}
		for name, sizes := range extremes {
			if k := passed(sizes(rand.New(rand.NewPCG(1, 72)), 2*hosts)); k > 0 && tt.always {
				t.Errorf("%s, %s: %d pieces take a way by other hosts", tt.name, name, k)
			}
		}
		for _, block := range []int64{1 << 10, LaneFill, 2 * LaneFill, 20 << 10, 32 << 10, 64 << 10} {
			straight := tt.always || block >= tt.least && block <= tt.most
			if k := passed(plan.AlltoallSizes{Uniform: block}); k > 0 == straight {
				t.Errorf("%s, %d bytes: %d pieces take a way by other hosts", tt.name, block, k)
			}
		}
		if k := passed(extremes["one pair"](nil, 2*hosts)); k == 0 && !tt.always {
			t.Errorf("%s: a block as large as many others takes no way by other hosts", tt.name)
		}
	}
}

// TestBridgesOfShortBlocks: where the network holds each flow and blocks are too short for several lanes of a few pairs of hosts, more pairs have bridges, all if they are not many more than
// fill the link; not where few are enough, blocks are longer, or the way back is what all wait for.
func TestBridgesOfShortBlocks(t *testing.T) {
	for _, tt := range []struct {
		name             string
		rate, flow, back netmap.BytesPerSec // bytes a second
		near, far        int                // hosts
		block            int64
		want             int
		lossy            bool
	}{
		{"few short blocks", 8e5, 1e5, 8e5, 3, 4, 1 << 10, 12, false},
		{"losses that hold flows", 8e5, 1e5, 8e5, 3, 4, 1 << 10, 4, true},
		{"of more hosts than fill it", 8e5, 1e5, 8e5, 6, 6, 100, 10, false},
		{"one flow fills it", 8e5, 8e5, 8e5, 3, 4, 1 << 10, 4, false},
		{"few flows fill it", 3e5, 1e5, 8e5, 3, 4, 1 << 10, 4, false},
		{"longer blocks", 8e5, 1e5, 8e5, 3, 4, 4<<10 - 1, 4, false},
		{"that fill lanes", 8e5, 1e5, 8e5, 3, 4, 4 << 10, 12, false},
		{"a slow way back", 8e5, 1e5, 2e5, 3, 4, 1 << 10, 4, false},
	} {
		hosts := tt.near + tt.far
		n := &plan.Network{Pipe: []netmap.BytesPerSec{0, tt.rate, tt.back, 0}}
		for h := range hosts {
			pool := 0
			if h >= tt.near {
				pool = 1
			}
			n.Hosts, n.Pool = append(n.Hosts, fmt.Sprintf("h%d", h)), append(n.Pool, pool)
			n.Egress, n.Ingress = append(n.Egress, 1e7), append(n.Ingress, 1e7)
			for o := range hosts {
				ceiling, latency := netmap.BytesPerSec(1e7), 50*time.Microsecond
				if other := o >= tt.near; other != (pool == 1) {
					latency = 5 * time.Millisecond
					if ceiling = tt.flow; pool == 1 {
						ceiling = tt.back
					}
				}
				n.Ceiling, n.Latency = append(n.Ceiling, ceiling), append(n.Latency, latency)
			}
		}
		p, _ := made(t, 1, n, plan.AlltoallSizes{Uniform: tt.block}, nil, Options{Lossy: []bool{false, tt.lossy, false, false}})
		pairs := make(map[[2]int]bool)
		for i := range p.Transfers {
			if tr := &p.Transfers[i]; n.Pool[tr.Src] == 0 && n.Pool[tr.Dst] == 1 {
				pairs[[2]int{tr.Src, tr.Dst}] = true
			}
		}
		if len(pairs) != tt.want {
			t.Errorf("%s: %d pairs of hosts, want %d", tt.name, len(pairs), tt.want)
		}
	}
}
