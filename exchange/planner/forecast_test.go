package planner

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// flatTree is the tree of one pool.
func (p *Problem) flatTree() *pools.Tree {
	root := &pools.Pool{}
	for i := range p.Snapshot.N() {
		root.Hosts = append(root.Hosts, i)
	}
	return &pools.Tree{Root: root, Hosts: p.Snapshot.Hosts()}
}

// TestForecastIsNearTheSimulator: with messages that cost nothing but their bytes, forecasts of all
// algorithms over random grids and trees are those of the flow simulator but for how ports are shared.
// They are never under the load of a port or link, and so never under the bound.
func TestForecastIsNearTheSimulator(t *testing.T) {
	var off []float64
	var worst float64
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 21))
		p := randomProblem(t, rng)
		if seed%3 == 0 {
			p = randomTree(t, rng)
		}
		net, err := p.network()
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(net, nil)
		for _, p.Collective = range []plan.Collective{plan.Allgather, plan.Alltoall} {
			bound, err := p.bound(net)
			if err != nil {
				t.Fatal(err)
			}
			for _, alg := range Algorithms(p.Collective) {
				made, err := alg.Make(p)
				if err != nil {
					continue
				}
				chunk := []int64{0, 4096}[rng.IntN(2)]
				sim, err := plan.Simulate(made, net, plan.SimOptions{Chunk: chunk, Overtake: chunk > 0, Notice: chunk > 0})
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
				}
				times, err := m.spans(made, chunk, math.Inf(1))
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
				}
				load, err := m.load(made)
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
				}
				got := makespan(times)
				if got < load*(1-1e-9) || load < bound.Seconds*(1-1e-9) {
					t.Errorf("seed %d, %s %s: forecast %v s, load %v s, bound %v s", seed, p.Collective, alg.Name, got, load, bound.Seconds)
				}
				if sim.Makespan > 0 {
					x := math.Abs(math.Log(got / sim.Makespan))
					off = append(off, x)
					if x > worst {
						worst = x
						t.Logf("seed %d, %s %s, chunk %d: forecast %.4f s, simulated %.4f s", seed, p.Collective, alg.Name, chunk, got, sim.Makespan)
					}
				}
			}
		}
	}
	slices.Sort(off)
	median, p90 := off[len(off)/2], off[len(off)*9/10]
	t.Logf("of %d plans the forecast is off by %.1f %% in the median, %.1f %% for nine of ten, %.0f %% at most", len(off), 100*median, 100*p90, 100*worst)
	if median > 0.005 || p90 > 0.08 || worst > 0.4 {
		t.Errorf("off by %.3f in the median, %.3f for nine of ten, %.3f at most; want 0.005, 0.08, 0.4", median, p90, worst)
	}
}

// TestForecastRefuses: plans that wait for themselves, and hosts that are not known.
func TestForecastRefuses(t *testing.T) {
	topology, err := plan.NewTopology([]string{"s"}, nil, []string{"a", "b", "c", "d"}, make([]int, 4), 100*netmap.Mbps)
	if err != nil {
		t.Fatal(err)
	}
	p := OnTopology(topology)
	p.Sizes = []int64{1000, 2000, 0, 10_000}
	net, err := p.network()
	if err != nil {
		t.Fatal(err)
	}
	made, err := Algorithms(plan.Allgather)[0].Make(p)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(net, nil)
	stuck := *made
	stuck.Transfers = slices.Clone(made.Transfers)
	last := len(stuck.Transfers) - 1
	stuck.Transfers[0].After = []int{last}
	stuck.Transfers[last].After = []int{0}
	if _, err := m.spans(&stuck, 0, math.Inf(1)); err == nil {
		t.Error("two transfers that wait for each other have a forecast")
	}
	for i := range stuck.Transfers {
		stuck.Transfers[i].After = nil
	}
	for i, x := range stuck.Transfers { // the first to bring a block that goes on brings another in its place
		if x.Dst != x.Blocks[0].Origin {
			stuck.Transfers[i].Blocks = []plan.Block{{Origin: x.Dst, Dest: plan.All}}
			break
		}
	}
	if _, err := m.spans(&stuck, 4096, math.Inf(1)); !errors.Is(err, plan.ErrStalled) {
		t.Errorf("without the first transfer: %v, want %v", err, plan.ErrStalled)
	}
	net.Egress[0] = 0
	if _, err := newModel(net, nil).load(made); !errors.Is(err, netmap.ErrNotMeasured) {
		t.Errorf("a host without a port: %v, want %v", err, netmap.ErrNotMeasured)
	}
	if _, err := newModel(net, nil).spans(made, 0, math.Inf(1)); !errors.Is(err, netmap.ErrNotMeasured) {
		t.Errorf("a host without a port: %v, want %v", err, netmap.ErrNotMeasured)
	}
}

// TestForecastAhead: how long its description is delays a plan that hosts have before they begin no more; what it moves takes as long.
func TestForecastAhead(t *testing.T) {
	shorter := 0
	for seed := range uint64(10) {
		p := randomProblem(t, rand.New(rand.NewPCG(seed, 23)))
		for _, p.Collective = range []plan.Collective{plan.Allgather, plan.Alltoall} {
			alg, err := Named(p.Collective, map[plan.Collective]string{plan.Allgather: "ring", plan.Alltoall: "pairwise"}[p.Collective])
			if err != nil {
				t.Fatal(err)
			}
			made, err := alg.Make(p)
			if err != nil {
				t.Fatal(err)
			}
			takes := func(ahead bool) float64 {
				p.Ahead = ahead
				_, forecast, err := Forecast(p, made, 4096)
				if err != nil {
					t.Fatal(err)
				}
				return forecast
			}
			most, net := 0., p.Snapshot.N()
			for h := 1; h < net; h++ { // all parts by the slowest way out of the coordinator, and a message's way
				if e := p.Snapshot.Estimate(0, h); e.Bandwidth > 0 {
					most = max(most, float64(2*len(made.Transfers)*partTransfer+net*partHead)/float64(e.Bandwidth))
				}
			}
			now, later := takes(false), takes(true)
			if later < now {
				shorter++
			}
			if later > now || now-later > 2*most {
				t.Errorf("seed %d, %s: %v s, and %v if it is known before; its parts take %v at most", seed, p.Collective, now, later, most)
			}
		}
	}
	if shorter < 10 {
		t.Errorf("%d of 20 plans are there sooner if they are known before", shorter)
	}
}
