package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// scheduling is what an operation inside one site may take beside two round trips: packets in the ports, and no more.
const scheduling = time.Millisecond

// measureSmall: between sites the makespan over the longest one-way delay between hosts with ranks, which every schedule needs; inside a site
// what it takes more than two round trips, in milliseconds. The median of several calls of one group, and the longest, which a probe may have
// been in the way of.
func measureSmall(t *testing.T, r *Reading) {
	name, shape := splitShape(r.Cell.Network, r.Cell.Collective)
	name, half := strings.CutSuffix(name, thinned)
	file := load(t, name)
	snap, err := file.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var ranks []int
	for h := range snap.N() {
		if !half || h%2 == 0 {
			ranks = append(ranks, h)
		}
	}
	var longest time.Duration
	for _, i := range ranks {
		for _, j := range ranks {
			if i != j {
				longest = max(longest, snap.Estimate(i, j).Latency)
			}
		}
	}
	onGrid(t, r.Cell, file, func(cl *gridtest.Cluster) {
		for _, took := range cl.Series("small", ranks, r.Cell.Runs, time.Second, func(ctx context.Context, c *client.Rank, rank int) error { return r.Cell.small(ctx, c, rank, shape) }) {
			r.Makespans = append(r.Makespans, took.Seconds())
		}
		took, worst := median(r.Makespans), 0.
		for _, s := range r.Makespans {
			worst = max(worst, s)
		}
		if len(file.Sites) > 1 {
			r.Bound = longest.Seconds()
			r.check("makespan / longest one-way delay", took/r.Bound, r.Cell.Limit)
			r.check("the longest of all calls", worst/r.Bound, 0)
			return
		}
		beside := 2 * 2 * longest.Seconds()
		r.check("ms beside two round trips", 1e3*(took-beside), 1e3*scheduling.Seconds())
		r.check("ms of the longest call", 1e3*(worst-beside), 0)
	})
}

// small calls the operation of c, of blocks of such a shape.
func (c Cell) small(ctx context.Context, r *client.Rank, rank int, shape bench.Shape) (err error) {
	ranks := len(r.Hosts())
	switch c.Collective {
	case plan.Allgather:
		_, err = r.Allgather(ctx, make([]byte, shape.Blocks(c.Size, ranks)[rank]), client.Options{})
	case plan.Alltoall:
		var total int64
		sizes := shape.Matrix(c.Size, ranks)[rank]
		for _, n := range sizes {
			total += n
		}
		if shape.Even() {
			sizes = nil
		}
		_, err = r.Alltoall(ctx, make([]byte, total), client.AlltoallOptions{Sizes: sizes})
	case group.Broadcast:
		var data []byte
		if rank == 0 {
			data = make([]byte, c.Size)
		}
		_, err = r.Broadcast(ctx, 0, data, client.Options{})
	case group.Barrier:
		_, err = r.Barrier(ctx, client.Options{})
	}
	return err
}
