package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/treetest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// treeLatency is that of [planner.OnTopology].
const treeLatency = 50 * time.Microsecond

// measureSwitches: engines alone run the planner's choice; the makespan over the bound, which for an alltoall is that of the peak aggregate
// throughput (Faraj, Yuan & Patarasuk, §2).
func measureSwitches(t *testing.T, r *Reading) {
	tree, net := switchNet(t, r.Cell.Network)
	net.Seed = r.Cell.Seed
	p := planner.OnTopology(tree)
	p.Collective = r.Cell.Collective
	p.Alltoall.Uniform = r.Cell.Size
	p.Sizes = make([]int64, len(p.Hosts()))
	for h := range p.Sizes {
		p.Sizes[h] = r.Cell.Size
	}
	c, err := planner.Choose(p, int64(exchange.DefaultChunk(r.Cell.Size)), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Bound, r.Algorithm = c.Bound.Seconds, c.Algorithm.Name
	treetest.Run(t, treetest.Config{Net: net}, func(cl *treetest.Cluster) {
		for range r.Cell.Runs {
			got := cl.Run(c.Plan)
			r.Makespans, r.Lost = append(r.Makespans, got.Makespan.Seconds()), append(r.Lost, got.Lost)
			r.Predicted, r.Elapsed = append(r.Predicted, c.Selection.Taken.Forecast), append(r.Elapsed, got.Makespan.Seconds())
		}
	})
	r.check("makespan / bound", median(r.Makespans)/r.Bound, r.Cell.Limit)
}

// switchNet returns the tree that a network's name is of, and the packets' network.
func switchNet(t *testing.T, network string) (*plan.Topology, gridnet.Config) {
	t.Helper()
	name, deep := strings.CutSuffix(network, deepHosts)
	name, fast := strings.CutSuffix(name, gigabit)
	data, err := os.ReadFile("../../configs/grids/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := plan.ReadTopology(name, data)
	if err != nil {
		t.Fatal(err)
	}
	if fast {
		tree = tree.WithBandwidth(1000 * netmap.Mbps)
	}
	net, err := gridnet.FromTopology(tree, treeLatency)
	if err != nil {
		t.Fatal(err)
	}
	if !deep {
		net.SendBuffer = hostQueue
	}
	return tree, net
}

// TestHostQueues: a row of deep hosts stands beside one that is the same but for their queues, of both collectives, and the page says what the queues are.
func TestHostQueues(t *testing.T) {
	cells := cellsOf[Switches]()
	deep := make(map[plan.Collective]int)
	for _, c := range cells {
		plain, ok := strings.CutSuffix(c.Network, deepHosts)
		_, net := switchNet(t, c.Network)
		want := hostQueue
		if ok {
			want = 0 // gridnet's own
			deep[c.Collective]++
			c.Network = plain
			if !slices.ContainsFunc(cells, func(o Cell) bool { return o.String() == c.String() && o.Runs == c.Runs }) {
				t.Errorf("nothing beside %v", c)
			}
		}
		if net.SendBuffer != want {
			t.Errorf("%v, deep hosts %v: they hold %d bytes, want %d", c, ok, net.SendBuffer, want)
		}
	}
	if deep[plan.Allgather] < 2 || deep[plan.Alltoall] < 2 {
		t.Errorf("%v cells of deep hosts, want some of both collectives", deep)
	}
	page := markdown(&Raw{Readings: []Reading{{Cell: Cell{Row: Switches}}}})
	for _, want := range []string{"8,000 bytes", "128 KiB", deepHosts} {
		if !strings.Contains(page, want) {
			t.Errorf("the page says nothing of %s", want)
		}
	}
}
