package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// others are the algorithms of other libraries.
var others = []string{"ring", "neighbour-exchange", "recursive-doubling", "bruck", "spreading-simple", "mpich-g2", "magpie"}

// measureBest: the makespan of the agents' choice over that of the best baseline in the same bubble. Two runs of one plan differ by a per cent
// or so, hence the least of each.
func measureBest(t *testing.T, r *Reading) {
	onGrid(t, r.Cell, load(t, r.Cell.Network), func(cl *gridtest.Cluster) {
		r.repeat(cl, jobOf(cl, r.Cell, ""))
		job := jobOf(cl, r.Cell, "")
		r.Bound = cl.Bound(job).Seconds()
		best, by := 0., ""
		for _, alg := range others {
			for range r.Cell.Runs {
				took := cl.MustRun(jobOf(cl, r.Cell, alg)).Makespan.Seconds()
				if by == "" || took < best {
					best, by = took, alg
				}
				time.Sleep(time.Second)
			}
		}
		own := r.Makespans[0]
		for _, s := range r.Makespans {
			own = min(own, s)
		}
		r.check("makespan / best baseline", own/best, r.Cell.Limit*1.01)
		r.Note = fmt.Sprintf("best baseline: %s, %.4g s", by, best)
	})
}
