package baseline_test

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// paperGrid is the 3-site grid of Gupta & Vadhiyar, Tables 1 and 2, with its pool tree
// UT | {UK | NTH}.
func paperGrid(t testing.TB) (*netmap.Snapshot, *pools.Tree) {
	data, _ := configs.Grid("paper-3site")
	g, err := gridfile.Parse("paper-3site.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s, tree
}

// many returns s with wide-area links that carry factor flows at their full rate at once
// (Gupta & Vadhiyar §3.2), with its pool tree.
func many(t testing.TB, s *netmap.Snapshot, factor netmap.BytesPerSec) (*netmap.Snapshot, *pools.Tree) {
	n := s.N()
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			e := s.Estimate(i, j)
			if s.Host(i).Site != s.Host(j).Site {
				e.Capacity = e.Bandwidth * factor
				e.Known |= netmap.FieldCapacity
			}
			est[i*n+j] = e
		}
	}
	s = netmap.NewSnapshot(1, s.Hosts(), est)
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s, tree
}

// onPaperGrid lists what §6 compares, and the rest, for one size.
func onPaperGrid(s *netmap.Snapshot, tree *pools.Tree, size int64) []struct {
	name string
	make func() (*plan.Plan, error)
} {
	sizes := []int64{size}
	broadcasts := func(kind baseline.TreeKind) func() (*plan.Plan, error) {
		return func() (*plan.Plan, error) {
			return baseline.BroadcastTrees(s, tree, sizes, baseline.TreeOptions{Kind: kind})
		}
	}
	plain := func(f func([]string, []int64) (*plan.Plan, error)) func() (*plan.Plan, error) {
		return func() (*plan.Plan, error) { return f(s.Names(), sizes) }
	}
	return []struct {
		name string
		make func() (*plan.Plan, error)
	}{
		{"min3", func() (*plan.Plan, error) { return min3.Schedule(s, tree, sizes, min3.Options{}) }},
		{"clustered", broadcasts(baseline.Clustered)},
		{"mateescu", broadcasts(baseline.Mateescu)},
		{"binomial", broadcasts(baseline.Binomial)},
		{"magpie", func() (*plan.Plan, error) { return baseline.MagPIe(s.Names(), sizes, tree.Leaves()) }},
		{"mpich-g2", func() (*plan.Plan, error) { return baseline.MPICHG2(s.Names(), sizes, tree) }},
		{"ring", plain(baseline.Ring)},
		{"neighbour-exchange", plain(baseline.NeighbourExchange)},
		{"recursive-doubling", plain(baseline.RecursiveDoubling)},
		{"bruck", plain(baseline.Bruck)},
		{"spreading-simple", plain(baseline.SpreadingSimple)},
		{"simple", plain(baseline.Simple)},
	}
}

// A run is what the simulator says of one plan on the 3-site grid.
type run struct {
	seconds    float64
	blocks     int64   // that crossed between sites, each time counted
	together   int     // most wide-area transfers under way at once
	firstStart float64 // seconds until the first wide-area transfer
}

func simulate(t testing.TB, p *plan.Plan, net *plan.Network, size int64) run {
	t.Helper()
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatal(err)
	}
	sim, err := plan.Simulate(p, net, plan.SimOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := run{seconds: sim.Makespan, firstStart: sim.Makespan}
	k := net.Pools()
	for i, b := range sim.PoolBytes {
		if i/k != i%k {
			r.blocks += b / size
		}
	}
	type edge struct {
		at    float64
		count int
	}
	var edges []edge
	for i := range p.Transfers {
		if t := &p.Transfers[i]; net.Pool[t.Src] != net.Pool[t.Dst] {
			r.firstStart = min(r.firstStart, sim.Start[i])
			edges = append(edges, edge{sim.Start[i], 1}, edge{sim.End[i], -1})
		}
	}
	// Of one instant the ends come first.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.count-b.count) })
	now := 0
	for _, e := range edges {
		now += e.count
		r.together = max(r.together, now)
	}
	return r
}

// TestPaperOrder: what §6.3 finds on the 3-site grid for all but small messages also comes
// out of the flow simulator, with one shared pipe between two sites and with one that
// carries eight flows. Run with -v for the table.
func TestPaperOrder(t *testing.T) {
	base, _ := paperGrid(t)
	for _, flows := range []int{1, 8} {
		s, tree := many(t, base, netmap.BytesPerSec(flows))
		net, err := plan.NetworkOf(s, tree.Leaves(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{1 << 10, 64 << 10, 256 << 10, 512 << 10} {
			runs := map[string]run{}
			for _, a := range onPaperGrid(s, tree, size) {
				p, err := a.make()
				if err != nil {
					t.Fatalf("%s: %v", a.name, err)
				}
				r := simulate(t, p, net, size)
				runs[a.name] = r
				t.Logf("%d flows, %4d KiB: %-18s %8.3f s, %3d blocks between sites, %3d transfers at once, the first at %.3f s",
					flows, size>>10, a.name, r.seconds, r.blocks, r.together, r.firstStart)
			}
			less := func(what string, of func(run) float64, names ...string) {
				for i, name := range names[1:] {
					if a, b := of(runs[names[i]]), of(runs[name]); a >= b {
						t.Errorf("%d flows, %d KiB: %s of %s is %g, of %s %g; want less", flows, size>>10, what, names[i], a, name, b)
					}
				}
			}
			seconds := func(r run) float64 { return r.seconds }
			first := func(r run) float64 { return r.firstStart }
			together := func(r run) float64 { return float64(r.together) }
			// §6.3: MagPIe and MPICH-G2 take longer than ClusteredSA, and the coordinators'
			// gathering makes their wide-area traffic begin late.
			less("time", seconds, "clustered", "magpie")
			less("time", seconds, "clustered", "mpich-g2")
			less("first crossing", first, "min3", "magpie")
			less("first crossing", first, "min3", "mpich-g2")
			// Figure 9: MagPIe has few transfers between sites at once, Mateescu's trees most.
			less("transfers at once", together, "magpie", "min3", "mateescu")
			if size >= 64<<10 { // "except for small message sizes"
				for name := range runs {
					if name != "min3" {
						less("time", seconds, "min3", name)
					}
				}
			}
			// Each of the 20 blocks enters two other sites; Mateescu's trees bring each to
			// every host there: 8·12 + 4·16 + 8·12.
			for name, want := range map[string]int64{"min3": 40, "clustered": 40, "magpie": 40, "mpich-g2": 40, "mateescu": 256, "simple": 256} {
				if got := runs[name].blocks; got != want {
					t.Errorf("%d flows, %d KiB: %s moves %d blocks between sites, want %d", flows, size>>10, name, got, want)
				}
			}
		}
	}
}

// TestPaperCosts: on N equal hosts, each with a full-duplex port, the simulator gives the
// times of §2 (and of Thakur et al. for those that §2 describes without one).
func TestPaperCosts(t *testing.T) {
	const m, rate, latency = 1000, 1e6, time.Millisecond
	beta, alpha := float64(m)/rate, latency.Seconds()
	log2 := func(n int) float64 { return float64(bits.Len(uint(n - 1))) }
	for _, tt := range []struct {
		name string
		make func([]string, []int64) (*plan.Plan, error)
		fits func(n int) bool
		cost func(n int) float64
	}{
		{"ring", baseline.Ring, nil, func(n int) float64 { return float64(n-1) * (alpha + beta) }},
		{"spreading-simple", baseline.SpreadingSimple, nil, func(n int) float64 { return float64(n-1) * (alpha + beta) }},
		// §2 gives it (N−1)(L + m/B) as well, which is for one send after the other.
		{"simple", baseline.Simple, nil, func(n int) float64 { return alpha + float64(n-1)*beta }},
		{"recursive-doubling", baseline.RecursiveDoubling, func(n int) bool { return n&(n-1) == 0 },
			func(n int) float64 { return log2(n)*alpha + float64(n-1)*beta }},
		{"bruck", baseline.Bruck, nil, func(n int) float64 { return log2(n)*alpha + float64(n-1)*beta }},
		{"neighbour-exchange", baseline.NeighbourExchange, func(n int) bool { return n%2 == 0 },
			func(n int) float64 { return float64(n/2)*alpha + float64(n-1)*beta }},
	} {
		for n := 2; n <= 24; n++ {
			if tt.fits != nil && !tt.fits(n) {
				continue
			}
			hosts := make([]netmap.Host, n)
			est := make([]netmap.Estimate, n*n)
			one := make([]int, n)
			for i := range hosts {
				hosts[i].Name = fmt.Sprint(i)
				one[i] = i
			}
			for i := range est {
				est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: latency, Bandwidth: rate}
			}
			s := netmap.NewSnapshot(1, hosts, est)
			net, err := plan.NetworkOf(s, [][]int{one}, 1)
			if err != nil {
				t.Fatal(err)
			}
			p, err := tt.make(s.Names(), []int64{m})
			if err != nil {
				t.Fatalf("%s, n=%d: %v", tt.name, n, err)
			}
			if got, want := simulate(t, p, net, m).seconds, tt.cost(n); math.Abs(got-want) > 1e-9*want {
				t.Errorf("%s, n=%d: %v s, want %v s", tt.name, n, got, want)
			}
		}
	}
}
