package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/treetest"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// useBin is the bin in which the use of links is noted.
const useBin = 50 * time.Millisecond

// measureEngines: what engines alone take for the plan that agents would choose, when they know the true map. What agents take beyond it is theirs: the map,
// the word that begins, cold lanes.
func measureEngines(t *testing.T, r *Reading) {
	c := r.Cell
	name, shape := splitShape(c.Network, c.Collective)
	file := load(t, name)
	snap, err := believed(file)
	if err != nil {
		t.Fatal(err)
	}
	prob := &planner.Problem{Collective: c.Collective, Snapshot: snap}
	if c.Collective == plan.Alltoall {
		prob.Alltoall.Uniform = c.Size
		if !shape.Even() {
			prob.Alltoall.Matrix = shape.Matrix(c.Size, snap.N())
		}
	} else {
		prob.Sizes = shape.Blocks(c.Size, snap.N())
	}
	if prob.Tree, err = pools.Build(snap, pools.Config{}); err != nil {
		t.Fatal(err)
	}
	chosen, err := planner.Select(prob, int64(exchange.ForecastChunk(c.Size)), planner.Advice{})
	if err != nil {
		t.Fatal(err)
	}
	r.Algorithm = chosen.Algorithm.Name
	network, err := gridtest.Network(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := treetest.Config{Path: treetest.Paths(snap), PathMTU: true, Watch: useBin, Rules: plan.Rules{Chunked: true},
		Chunk: func(p *plan.Plan) int { return agent.ChunkOf(p, snap) }}
	if cfg.Net, err = gridnet.FromGrid(file); err != nil {
		t.Fatal(err)
	}
	cfg.Net.Seed = c.Seed
	var notes []string
	treetest.Run(t, cfg, func(cl *treetest.Cluster) {
		for i := range c.Runs {
			got := cl.Run(chosen.Plan)
			r.Makespans, r.Lost = append(r.Makespans, got.Makespan.Seconds()), append(r.Lost, got.Lost)
			r.Predicted, r.Elapsed = append(r.Predicted, chosen.Taken.Predicted()), r.Makespans
			notes = append(notes, fmt.Sprintf("run %d, %.3f s: %s", i+1, got.Makespan.Seconds(), useOf(got)))
			time.Sleep(time.Second)
		}
	})
	r.Note = "share of the links' rates in use until half of the time, and until the end. " + strings.Join(notes, "; ")
	took := median(r.Makespans[min(1, len(r.Makespans)-1):]) // the first one opens lanes
	if c.Collective == plan.Alltoall {
		b, err := network.AlltoallBounds(prob.Alltoall)
		if err != nil {
			t.Fatal(err)
		}
		r.Bound, r.Relayed = b.Direct.Seconds, b.Relayed.Seconds
		r.check("makespan / direct bound", took/r.Bound, c.Limit)
		r.check("makespan / relayed bound", took/r.Relayed, c.Relayed)
		return
	}
	b, err := network.AllgatherBound(prob.Sizes)
	if err != nil {
		t.Fatal(err)
	}
	r.Bound = b.Seconds
	r.check("makespan / bound", took/r.Bound, c.Limit)
}

// believed is the map of agents that have measured a grid without fault. Between sites no pair of hosts gets more than their ports
// carry, where the file says what all get together; and of a round trip each direction has one half.
func believed(file *gridfile.Grid) (*netmap.Snapshot, error) {
	snap, err := file.Snapshot()
	if err != nil {
		return nil, err
	}
	n := snap.N()
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			e := snap.Estimate(i, j)
			if i != j {
				if pair, _ := snap.Pair(i, j); pair < e.Capacity { // so agents put it where ports hold who looks for more
					e.Capacity, e.Carried, e.Known = pair, pair, e.Known|netmap.FieldCarried
				}
				e.Latency = (e.Latency + snap.Estimate(j, i).Latency) / 2
			}
			est[i*n+j] = e
		}
	}
	hosts := slices.Clone(snap.Hosts())
	for i := range hosts {
		hosts[i].PortMbps = 0 // agents do not know
	}
	return netmap.NewSnapshot(snap.Epoch(), hosts, est), nil
}

// useOf says what share of each link was in use.
func useOf(got *treetest.Result) string {
	var all []string
	bins := max(int((got.Makespan+useBin-1)/useBin), 1)
	for i := range got.Use {
		u := &got.Use[i]
		all = append(all, fmt.Sprintf("%s→%s %.0f, %.0f %%", u.From, u.To, 100*u.Over(max(bins/2, 1)), 100*u.Over(bins)))
	}
	return strings.Join(all, ", ")
}
