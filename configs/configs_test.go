package configs_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestEveryFileHasAName compares the folder with the built-in names, which are of both kinds
// together unique: gridagent lab takes either.
func TestEveryFileHasAName(t *testing.T) {
	files, err := os.ReadDir("grids")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		if f.Name() != "README.md" {
			want = append(want, strings.TrimSuffix(f.Name(), filepath.Ext(f.Name())))
		}
	}
	slices.Sort(want)
	have := slices.Concat(configs.Grids(), configs.Topologies())
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("built-in names %q, files %q", have, want)
	}
	if c := slices.Compact(slices.Clone(have)); len(c) != len(have) {
		t.Errorf("a name is used twice: %q", have)
	}
	table, err := os.ReadFile("grids/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.Contains(string(table), "`"+f.Name()+"`") && f.Name() != "README.md" {
			t.Errorf("grids/README.md does not say where %s comes from", f.Name())
		}
	}
	for _, name := range []string{"", "nosuch", "paper-3site.yaml", "../gridagent"} {
		if _, ok := configs.Grid(name); ok {
			t.Errorf("Grid(%q): found", name)
		}
	}
	if _, ok := configs.Topology("paper-3site"); ok {
		t.Error("Topology finds a grid")
	}
}

func grid(t *testing.T, name string) *gridfile.Grid {
	t.Helper()
	data, ok := configs.Grid(name)
	if !ok {
		t.Fatalf("no grid %q", name)
	}
	g, err := gridfile.Parse(name+".yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func topology(t *testing.T, name string) *plan.Topology {
	t.Helper()
	data, ok := configs.Topology(name)
	if !ok {
		t.Fatalf("no topology %q", name)
	}
	topo, err := plan.ReadTopology(name+".json", data)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// scheduled returns the plan of the named algorithm for p, simulated block by block.
func scheduled(t *testing.T, name string, p *planner.Problem) *planner.Scheduled {
	t.Helper()
	alg, err := planner.Named(p.Collective, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := planner.Schedule(alg, p, 0)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// same returns n sizes of so many bytes.
func same(n int, bytes int64) []int64 { return slices.Repeat([]int64{bytes}, n) }

func TestGridsAreUsable(t *testing.T) {
	for _, name := range configs.Grids() {
		t.Run(name, func(t *testing.T) {
			g := grid(t, name)
			if _, err := gridnet.FromGrid(g); err != nil {
				t.Errorf("emulate: %v", err)
			}
			snapshot, err := g.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			tree, err := pools.Build(snapshot, pools.Config{})
			if err != nil {
				t.Fatal(err)
			}
			n := len(snapshot.Hosts())
			gather := scheduled(t, "min3", &planner.Problem{Collective: plan.Allgather, Sizes: same(n, 64<<10), Snapshot: snapshot, Tree: tree,
				Options: planner.Options{Duplex: plan.FullDuplex}})
			if err := plan.Verify(gather.Plan, plan.Rules{Duplex: plan.FullDuplex, Snapshot: snapshot, Pools: tree.Sets()}); err != nil {
				t.Errorf("min3: %v", err)
			}
			all := scheduled(t, "group-shuffle", &planner.Problem{Collective: plan.Alltoall, Alltoall: plan.AlltoallSizes{Uniform: 4 << 10}, Snapshot: snapshot, Tree: tree})
			if err := plan.Verify(all.Plan, plan.Rules{}); err != nil {
				t.Errorf("group-shuffle: %v", err)
			}
		})
	}
}

func TestTopologiesAreUsable(t *testing.T) {
	for _, name := range configs.Topologies() {
		t.Run(name, func(t *testing.T) {
			topo := topology(t, name)
			if rate, ok := topo.Bandwidth(); !ok || rate != 100*netmap.Mbps {
				t.Errorf("bandwidth %v, want 100 Mbit/s as in the papers", rate.Mbps())
			}
			if _, err := gridnet.FromTopology(topo, time.Millisecond); err != nil {
				t.Errorf("emulate: %v", err)
			}
			p := planner.OnTopology(topo)
			p.Collective, p.Sizes = plan.Allgather, same(len(topo.Hosts()), 64<<10)
			gather := scheduled(t, "lr3", p)
			p.Collective, p.Alltoall = plan.Alltoall, plan.AlltoallSizes{Uniform: 4 << 10}
			p.AAPC = phase.Options{Sync: phase.Receiver}
			all := scheduled(t, "aapc", p)
			for _, made := range []*plan.Plan{gather.Plan, all.Plan} {
				if err := plan.Verify(made, plan.Rules{Topology: topo}); err != nil {
					t.Errorf("%s: %v", made.Algorithm, err)
				}
			}
		})
	}
}

// TestHeldByLoss checks the losses that are said to hold a flow at its bandwidth against
// the formula of paper-3site-loss.yaml.
func TestHeldByLoss(t *testing.T) {
	held := 0
	for _, name := range configs.Grids() {
		g := grid(t, name)
		latency := make(map[[2]int]time.Duration)
		for _, l := range g.WAN {
			latency[[2]int{l.From, l.To}] = l.Latency
		}
		for _, l := range g.WAN {
			if l.HeldBy != gridfile.HeldByLoss {
				continue
			}
			held++
			rtt := (l.Latency + latency[[2]int{l.To, l.From}]).Seconds()
			if want := 2500 / (rtt * math.Sqrt(l.Loss)); math.Abs(float64(l.Bandwidth)/want-1) > 0.02 {
				t.Errorf("%s: %s→%s loses %v%%: a flow gets %.3g Mbit/s, not %.3g", name, g.Sites[l.From].Name, g.Sites[l.To].Name,
					100*l.Loss, netmap.BytesPerSec(want).Mbps(), l.Bandwidth.Mbps())
			}
		}
	}
	if held < 7 {
		t.Errorf("%d links held by loss, want those of paper-3site-loss and the bad one of modern-4site", held)
	}
}

// TestModernGrid checks what the head of modern-4site.yaml says of it.
func TestModernGrid(t *testing.T) {
	g := grid(t, "modern-4site")
	reverse := make(map[[2]int]netmap.BytesPerSec)
	bad := 0
	for _, l := range g.WAN {
		reverse[[2]int{l.To, l.From}] = l.Capacity
		from, to := g.Sites[l.From].Name, g.Sites[l.To].Name
		if real := 100 * l.Capacity.Mbps(); real < 1000 || real > 10000 {
			t.Errorf("%s→%s stands for %v Mbit/s, want 1 to 10 Gbit/s", from, to, real)
		}
		if l.Loss > 0 {
			bad++
		}
		if from == "LIS" && l.Capacity != 10*netmap.Mbps || to == "LIS" && l.Capacity != 20*netmap.Mbps {
			t.Errorf("%s→%s has %v Mbit/s, not the rate of LIS's access line", from, to, l.Capacity.Mbps())
		}
	}
	if len(g.Sites) != 4 || len(g.WAN) != 12 || bad != 1 {
		t.Errorf("%d sites, %d links, %d of them bad; want 4, 12, 1", len(g.Sites), len(g.WAN), bad)
	}
	for _, l := range g.WAN {
		if reverse[[2]int{l.From, l.To}] == l.Capacity {
			t.Errorf("%s and %s have the same rate both ways", g.Sites[l.From].Name, g.Sites[l.To].Name)
		}
	}
}
