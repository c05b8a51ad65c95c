package main

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// others are the algorithms of other libraries.
var others = []string{"ring", "neighbour-exchange", "recursive-doubling", "bruck", "spreading-simple", "mpich-g2", "magpie"}

// measureBest: the makespan of the agents' choice over that of the best baseline in the same bubble. Two runs of one plan differ by a per cent
// or so, hence the least of each. All runs of one algorithm come one behind the other, and the first of them is not counted: it opens lanes,
// and mends what the algorithm before has left. A baseline that sends everything to one host at once loses packets, after which quic-go's
// congestion windows are small, and the next exchange takes 2 to 6 % longer than the one behind it. The agents' choice comes
// first: nothing is known from the others.
func measureBest(t *testing.T, r *Reading) {
	onGrid(t, r.Cell, load(t, r.Cell.Network), func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		r.Bound = cl.Bound(job).Seconds()
		r.once(cl, job)
		time.Sleep(time.Second) // queues empty
		r.Makespans, r.Lost, r.Predicted, r.Elapsed = nil, nil, nil, nil
		r.repeat(cl, job)
		own := slices.Min(r.Makespans)
		best, least := "", math.Inf(1)
		for _, alg := range others {
			for i := range 1 + r.Cell.Runs {
				took := cl.MustRun(jobOf(cl, r.Cell, alg)).Makespan.Seconds()
				time.Sleep(time.Second) // queues empty
				if i > 0 && took < least {
					best, least = alg, took
				}
			}
		}
		r.check("makespan / best baseline", own/least, r.Cell.Limit*1.01)
		r.Note = fmt.Sprintf("best baseline: %s, %.4g s", best, least)
	})
}
