package min3

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// randomSites is a grid of 2-6 sites with rates that differ by direction, some of which
// have room for several flows, and one size or many, zeros among them.
func randomSites(rng *rand.Rand) (*netmap.Snapshot, *pools.Tree, []int64) {
	k := 2 + rng.IntN(5)
	var site []int
	var leaves []*pools.Pool
	for i := range k {
		lo := len(site)
		for range 1 + rng.IntN(8) {
			site = append(site, i)
		}
		leaves = append(leaves, leaf(lo, len(site)))
	}
	wan, lan := make([]netmap.Estimate, k*k), make([]netmap.Estimate, k)
	for i := range wan {
		wan[i] = measured(time.Duration(1+rng.IntN(80))*time.Millisecond, netmap.BytesPerSec(1+rng.Float64()*19)*netmap.Mbps)
		if rng.IntN(2) == 0 {
			wan[i].Known |= netmap.FieldCapacity
			wan[i].Capacity = wan[i].Bandwidth * netmap.BytesPerSec(1+rng.Float64()*9)
		}
	}
	for i := range lan {
		lan[i] = measured(100*time.Microsecond, netmap.BytesPerSec(50+rng.Float64()*900)*netmap.Mbps)
	}
	noise, logp := rng.IntN(2) == 0, rng.IntN(4) == 0
	s := snapshot(len(site), func(i, j int) netmap.Estimate {
		e := wan[site[i]*k+site[j]]
		if site[i] == site[j] {
			e = lan[site[i]]
		}
		if noise {
			e.Bandwidth *= netmap.BytesPerSec(0.95 + 0.1*rng.Float64())
		}
		if logp {
			e.Known |= netmap.FieldGap | netmap.FieldSendOverhead
			e.Gap = time.Duration(rng.IntN(4)) * time.Millisecond
			e.SendOverhead = time.Duration(rng.IntN(3)) * time.Millisecond
		}
		return e
	})
	sizes := []int64{16 << 10 << rng.IntN(8)}
	if rng.IntN(2) == 0 {
		sizes = make([]int64, len(site))
		for i := range sizes {
			if rng.IntN(3) > 0 {
				sizes[i] = 1 + rng.Int64N(1<<20)
			}
		}
	}
	root := join(leaves...)
	if k > 2 && rng.IntN(2) == 0 {
		root = join(leaves[0], join(leaves[1:]...)) // nesting must not matter
	}
	return s, &pools.Tree{Root: root}, sizes
}

// proveShared checks what a plan with shared links promises.
func proveShared(s *netmap.Snapshot, tree *pools.Tree, sizes []int64, duplex plan.Duplex, p *plan.Plan) error {
	if err := plan.Verify(p, plan.Rules{Duplex: duplex, Snapshot: s, Pools: tree.Leaves()}); err != nil {
		return err
	}
	return withinCapacity(s, tree, p)
}

// withinCapacity adds up the rates at which transfers between two leaf pools send: from
// Start until one latency before End. No link may carry more than its capacity.
func withinCapacity(s *netmap.Snapshot, tree *pools.Tree, p *plan.Plan) error {
	net, err := plan.NetworkOf(s, tree.Leaves(), 1)
	if err != nil {
		return err
	}
	type change struct{ at, rate float64 }
	changes := make(map[int][]change) // by pipe
	for i := range p.Transfers {
		t := &p.Transfers[i]
		from, to := net.Pool[t.Src], net.Pool[t.Dst]
		size := float64(p.Bytes(t))
		if from == to || size == 0 {
			continue
		}
		// A rounding of a picosecond at either end is no overlap.
		lasts := t.End - t.Start - s.Estimate(t.Src, t.Dst).Latency.Seconds()
		if lasts < 1e-9 {
			continue // too short to tell a rate from
		}
		e := from*net.Pools() + to
		changes[e] = append(changes[e], change{t.Start + 1e-11, size / lasts}, change{t.Start + lasts - 1e-11, -size / lasts})
	}
	for e, list := range changes {
		slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		var rate float64
		for _, c := range list {
			if rate += c.rate; rate > float64(net.Pipe[e])*(1+1e-6) {
				return fmt.Errorf("pool %d→%d carries %.6g B/s at %.9f s, its capacity is %.6g B/s",
					e/net.Pools(), e%net.Pools(), rate, c.at, float64(net.Pipe[e]))
			}
		}
	}
	return nil
}

// simulated returns the makespan in plan.Simulate over the bound, with a sixteenth of the
// largest block as chunk, as the engine has it.
func simulated(t *testing.T, s *netmap.Snapshot, tree *pools.Tree, sizes []int64, p *plan.Plan) float64 {
	t.Helper()
	net, err := plan.NetworkOf(s, tree.Leaves(), 1)
	if err != nil {
		t.Fatal(err)
	}
	sizes, err = perHost(sizes, s.N())
	if err != nil {
		t.Fatal(err)
	}
	bound, err := net.AllgatherBound(sizes)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := plan.Simulate(p, net, plan.SimOptions{Chunk: max(4<<10, slices.Max(sizes)/16)})
	if err != nil {
		t.Fatal(err)
	}
	return sim.Makespan / bound.Seconds
}

// TestSharedThreeSites: on the paper's grid at 256 KiB the plan comes within a tenth of
// the bound, where the paper's own plan is over 1.4 times it.
func TestSharedThreeSites(t *testing.T) {
	for _, duplex := range models {
		s, tree := paperGrid()
		sizes := []int64{256 << 10}
		p, err := Schedule(s, tree, sizes, Options{Duplex: duplex, Links: Shared})
		if err != nil {
			t.Fatal(err)
		}
		if err := proveShared(s, tree, sizes, duplex, p); err != nil {
			t.Fatal(err)
		}
		if got := simulated(t, s, tree, sizes, p); got > 1.10 {
			t.Errorf("%v duplex: shared links take %.3f times the bound, want 1.10 at most", duplex, got)
		}
		if p.Algorithm != "min3" {
			t.Errorf("algorithm %q", p.Algorithm)
		}
	}
}

func TestSharedProperties(t *testing.T) {
	for seed := range uint64(250) {
		s, tree, sizes := randomSites(rand.New(rand.NewPCG(seed, 20)))
		for _, duplex := range models {
			p, err := Schedule(s, tree, sizes, Options{Duplex: duplex, Links: Shared})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := proveShared(s, tree, sizes, duplex, p); err != nil {
				t.Fatalf("seed %d: n=%d, %v duplex: %v", seed, s.N(), duplex, err)
			}
		}
	}
}

// TestSharedOddTrees runs shared links over trees and links of every kind, not only sites.
func TestSharedOddTrees(t *testing.T) {
	for seed := range uint64(400) {
		sc := randomScenario(rand.New(rand.NewPCG(seed, 21)), 20)
		sc.opt.Links = Shared
		p, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := proveShared(sc.s, sc.tree, sc.sizes, sc.opt.Duplex, p); err != nil {
			t.Fatalf("seed %d: n=%d, %v duplex: %v", seed, sc.s.N(), sc.opt.Duplex, err)
		}
	}
}

// TestSharedAgainstSeparate: in the simulator plans for shared links take less than 0.8 of the time in the mean
// and are hardly ever slower. Where they are, by up to a quarter on single grids, blocks are so
// small that latencies decide, or one host's port binds and its blocks could come in
// a luckier order.
func TestSharedAgainstSeparate(t *testing.T) {
	for _, duplex := range models {
		var sum float64
		slower := 0
		const seeds = 60
		for seed := range uint64(seeds) {
			s, tree, sizes := randomSites(rand.New(rand.NewPCG(seed, 22)))
			if slices.Max(sizes) == 0 {
				sizes = []int64{1 << 16}
			}
			var took [2]float64
			for _, links := range []Links{Separate, Shared} {
				p, err := Schedule(s, tree, sizes, Options{Duplex: duplex, Links: links})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				took[links] = simulated(t, s, tree, sizes, p)
			}
			sum += took[Shared] / took[Separate]
			if took[Shared] > 1.05*took[Separate] {
				slower++
			}
		}
		if mean := sum / seeds; mean > 0.80 || slower > seeds/20 {
			t.Errorf("%v duplex: shared links take %.3f of separate ones, and more than 1.05 in %d of %d", duplex, mean, slower, seeds)
		}
	}
}

// TestSharedLAN: inside a pool of like hosts none sends more than its share, whatever the
// last digits of the links are.
func TestSharedLAN(t *testing.T) {
	for n := 2; n <= 20; n++ {
		for _, noise := range []float64{0, 0.2} {
			rng := rand.New(rand.NewPCG(uint64(n), 23))
			s := snapshot(n, func(int, int) netmap.Estimate {
				return measured(60*time.Microsecond, netmap.BytesPerSec(80*(1+noise*rng.Float64()))*netmap.Mbps)
			})
			tree := &pools.Tree{Root: leaf(0, n)}
			for _, duplex := range models {
				p, err := Schedule(s, tree, []int64{1 << 16}, Options{Duplex: duplex, Links: Shared})
				if err != nil {
					t.Fatal(err)
				}
				sent := make([]int, n)
				for _, tr := range p.Transfers {
					sent[tr.Src]++
				}
				if most := slices.Max(sent); most > n {
					t.Errorf("%d hosts, noise %v, %v duplex: a host sends %d blocks, its share is %d", n, noise, duplex, most, n-1)
				}
			}
		}
	}
}

// TestSharedIgnoresTreeOrder: the order and the nesting of pools change nothing.
func TestSharedIgnoresTreeOrder(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 24))
		s, tree, sizes := randomSites(rng)
		var leaves []*pools.Pool
		for _, hosts := range tree.Leaves() {
			leaves = append(leaves, &pools.Pool{Hosts: hosts})
		}
		want, err := Schedule(s, tree, sizes, Options{Links: Shared})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := Schedule(s, &pools.Tree{Root: shuffled(rng, join(leaves...))}, sizes, Options{Links: Shared})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: a tree of the same leaves gives another plan", seed)
		}
	}
}

func TestLinksWords(t *testing.T) {
	for _, l := range []Links{Separate, Shared} {
		if got, err := ParseLinks(l.String()); err != nil || got != l {
			t.Errorf("ParseLinks(%q) = %v, %v", l, got, err)
		}
	}
	if _, err := ParseLinks("both"); err == nil || !strings.Contains(err.Error(), `"both"`) {
		t.Errorf("ParseLinks(both): %v", err)
	}
	s, tree := paperGrid()
	if _, err := Schedule(s, tree, []int64{1}, Options{Links: 9}); err == nil || !strings.Contains(err.Error(), "link model 9") {
		t.Errorf("link model 9: %v", err)
	}
}

func BenchmarkScheduleShared(b *testing.B) {
	for _, duplex := range models {
		for _, n := range []int{20, 64, 256} {
			s, tree := threeLevels(n)
			b.Run(fmt.Sprintf("%v/n=%d", duplex, n), func(b *testing.B) {
				benchmark(b, s, tree, []int64{65536}, Options{Duplex: duplex, Links: Shared})
			})
		}
		s, tree := threeLevels(256)
		for _, pool := range []int{2, 32} { // hosts
			var leaves []*pools.Pool
			for lo := 0; lo < 256; lo += pool {
				leaves = append(leaves, leaf(lo, lo+pool))
			}
			tree = &pools.Tree{Root: join(leaves...)}
			b.Run(fmt.Sprintf("%v/n=256/pools=%d", duplex, len(leaves)), func(b *testing.B) {
				benchmark(b, s, tree, []int64{65536}, Options{Duplex: duplex, Links: Shared})
			})
		}
	}
}
