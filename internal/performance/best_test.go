package main

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// others are the algorithms of other libraries.
var others = []string{"ring", "neighbour-exchange", "recursive-doubling", "bruck", "spreading-simple", "mpich-g2", "magpie"}

// measureBest: the makespan of the agents' choice over that of the best baseline in the same bubble. Two runs of one plan differ by a per cent
// or so, hence the least of each. They take turns, after a run of each that opens lanes: else those that come later find
// the lanes warm that the first have opened.
func measureBest(t *testing.T, r *Reading) {
	onGrid(t, r.Cell, load(t, r.Cell.Network), func(cl *gridtest.Cluster) {
		took := make(map[string]float64) // the least
		run := func(alg string) float64 {
			s := cl.MustRun(jobOf(cl, r.Cell, alg)).Makespan.Seconds()
			time.Sleep(time.Second)
			return s
		}
		job := jobOf(cl, r.Cell, "")
		r.Bound = cl.Bound(job).Seconds()
		run("")
		for _, alg := range others {
			run(alg)
			took[alg] = math.Inf(1)
		}
		own := math.Inf(1)
		for range r.Cell.Runs {
			r.once(cl, job)
			own = min(own, r.Makespans[len(r.Makespans)-1])
			for _, alg := range others {
				took[alg] = min(took[alg], run(alg))
			}
		}
		best := others[0]
		for _, alg := range others {
			if took[alg] < took[best] {
				best = alg
			}
		}
		r.check("makespan / best baseline", own/took[best], r.Cell.Limit*1.01)
		r.Note = fmt.Sprintf("best baseline: %s, %.4g s", best, took[best])
	})
}
