package main

import (
	"strings"
	"testing"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureYoung: the makespan over the bound, of an alltoall the relayed one; of the first operation, for which hardly a lane is open, and of those
// behind it, which leave the agents no time to measure what they do not know yet.
func measureYoung(t *testing.T, r *Reading) {
	name := r.Cell.Network[:strings.LastIndexByte(r.Cell.Network, '-')]
	onGrid(t, r.Cell, load(t, name), func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		for range r.Cell.Runs {
			r.once(cl, job)
		}
		if job.Alltoall != nil {
			r.Bound = cl.AlltoallBounds(job).Relayed.Seconds
		} else {
			r.Bound = cl.Bound(job).Seconds()
		}
		r.check("the first / bound", r.Makespans[0]/r.Bound, 0)
		r.check("the others / bound", median(r.Makespans[1:])/r.Bound, 0)
	})
}
