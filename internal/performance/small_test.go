package main

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// scheduling is what an operation inside one site may take beside two round trips: packets in the ports, and no more.
const scheduling = time.Millisecond

// measureSmall: between sites the makespan over the longest one-way delay, which every schedule needs; inside a site what it takes more than
// two round trips, in milliseconds.
func measureSmall(t *testing.T, r *Reading) {
	file := load(t, r.Cell.Network)
	snap, err := file.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	for i := range snap.N() {
		for j := range snap.N() {
			if i != j {
				longest = max(longest, snap.Estimate(i, j).Latency)
			}
		}
	}
	onGrid(t, r.Cell, file, func(cl *gridtest.Cluster) {
		r.repeat(cl, jobOf(cl, r.Cell, ""))
		took := median(r.Makespans)
		if len(file.Sites) > 1 {
			r.Bound = longest.Seconds()
			r.check("makespan / longest one-way delay", took/r.Bound, r.Cell.Limit)
			return
		}
		r.check("ms beside two round trips", 1e3*(took-2*2*longest.Seconds()), 1e3*scheduling.Seconds())
	})
}
