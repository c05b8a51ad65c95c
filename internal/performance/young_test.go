package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureYoung: the makespan over the bound, of an alltoall the relayed one; of the first operation, for which hardly a lane is open, and of those
// behind it, which leave the agents no time to measure what they do not know yet.
func measureYoung(t *testing.T, r *Reading) {
	measureSeries(t, r, r.Cell.Network[:strings.LastIndexByte(r.Cell.Network, '-')], 0)
}

// measurePauses is the same of agents that know their grid, of operations so far apart that lanes and plans of the one before may have gone.
func measurePauses(t *testing.T, r *Reading) { measureSeries(t, r, r.Cell.Network, 10*time.Minute) }

func measureSeries(t *testing.T, r *Reading, grid string, pause time.Duration) {
	onGrid(t, r.Cell, load(t, grid), func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		for i := range r.Cell.Runs {
			if i > 0 {
				time.Sleep(pause)
			}
			r.once(cl, job)
		}
		r.Bound = boundOf(cl, job)
		r.check("the first / bound", r.Makespans[0]/r.Bound, 0)
		r.check("the others / bound", median(r.Makespans[1:])/r.Bound, 0)
	})
}
