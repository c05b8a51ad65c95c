package main

import (
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureUneven: the makespan over the bound, of an alltoall the relayed one, of blocks that differ much. What is after the last dash of the network says how.
func measureUneven(t *testing.T, r *Reading) {
	network, shape := splitShape(r.Cell.Network, r.Cell.Collective)
	if shape.Even() {
		t.Fatalf("network %q has no shape of blocks behind its last dash", r.Cell.Network)
	}
	onGrid(t, r.Cell, load(t, network), func(cl *gridtest.Cluster) {
		hosts := cl.EachHost()
		var job grid.Job
		if r.Cell.Collective == plan.Alltoall {
			rows := shape.Matrix(r.Cell.Size, len(hosts))
			job = cl.Alltoall("", hosts, func(s, d int) int { return int(rows[s][d]) })
		} else {
			var sizes []int
			for _, n := range shape.Blocks(r.Cell.Size, len(hosts)) {
				sizes = append(sizes, int(n))
			}
			job = cl.Job("", hosts, sizes...)
		}
		r.repeat(cl, job)
		r.Bound = boundOf(cl, job)
		r.check("makespan / bound", median(r.Makespans)/r.Bound, 0)
	})
}

// splitShape splits the network of a cell where blocks differ; the shape is even where they do not.
func splitShape(name string, c plan.Collective) (network string, shape bench.Shape) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 || bench.Shape(name[at+1:]).Check(c) != nil {
		return name, bench.Even
	}
	return name[:at], bench.Shape(name[at+1:])
}
