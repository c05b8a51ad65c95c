package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// The link that falls: one of the two into the site that binds.
const fallFrom, fallTo = "UK", "UT"

// measureFall: a link falls to a quarter after a third of the bound; the makespan over the bound of who knew it from the start.
func measureFall(t *testing.T, r *Reading) {
	file := load(t, r.Cell.Network)
	onGrid(t, r.Cell, file, func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		at := cl.Bound(job) / 3
		job.Ready = func() {
			time.Sleep(at)
			if err := cl.Net.SetLink(fallFrom, fallTo, func(l *gridnet.Link) { l.Rate /= 4 }); err != nil {
				t.Error(err)
			}
		}
		r.repeat(cl, job)
		bound, err := clairvoyant(file, r.Cell, at.Seconds())
		if err != nil {
			t.Fatal(err)
		}
		r.Bound = bound
		r.check("makespan / bound of the clairvoyant", median(r.Makespans)/bound, r.Cell.Limit)
		r.Note = fmt.Sprintf("%s→%s falls after %.3g s", fallFrom, fallTo, at.Seconds())
	})
}

// clairvoyant returns the bound in seconds of a cell's exchange during which the link falls: the T for which what the links can carry
// until T gives the bound T, of an alltoall the relayed one.
func clairvoyant(file *gridfile.Grid, c Cell, at float64) (float64, error) {
	snap, err := file.Snapshot()
	if err != nil {
		return 0, err
	}
	tree, err := pools.Build(snap, pools.Config{})
	if err != nil {
		return 0, err
	}
	network, err := plan.NetworkOf(snap, tree.Leaves(), 1)
	if err != nil {
		return 0, err
	}
	sizes := make([]int64, snap.N())
	var from, to int
	for h := range sizes {
		sizes[h] = c.Size
		switch snap.Host(h).Site {
		case fallFrom:
			from = network.Pool[h]
		case fallTo:
			to = network.Pool[h]
		}
	}
	pipe := &network.Pipe[from*network.Pools()+to]
	full := *pipe
	low, high := at, 100*at
	for range 60 {
		end := (low + high) / 2
		*pipe = full * netmap.BytesPerSec((at+(end-at)/4)/end)
		var b plan.Bound
		var err error
		if c.Collective == plan.Alltoall {
			var bounds *plan.AlltoallBounds
			if bounds, err = network.AlltoallBounds(plan.AlltoallSizes{Uniform: c.Size}); err == nil {
				b = bounds.Relayed
			}
		} else {
			b, err = network.AllgatherBound(sizes)
		}
		if err != nil {
			return 0, err
		}
		if b.Seconds > end {
			low = end
		} else {
			high = end
		}
	}
	return high, nil
}
