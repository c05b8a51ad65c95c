package main

import (
	"os"
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

const (
	// treeLatency is that of [planner.OnTopology].
	treeLatency = 50 * time.Microsecond
	// hostQueue is how many bytes wait in a host's own port, 6 packets: about what the driver of a network card holds.
	hostQueue = 8000
)

// measureSwitches: engines alone run the planner's choice; the makespan over the bound, which for an alltoall is that of the peak aggregate
// throughput (Faraj, Yuan & Patarasuk, §2).
func measureSwitches(t *testing.T, r *Reading) {
	name, fast := strings.CutSuffix(r.Cell.Network, gigabit)
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
	net.SendBuffer, net.Seed = hostQueue, r.Cell.Seed
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
