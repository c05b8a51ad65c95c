package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// unfair is what the slowest of equal groups that run together may take of the time of the fastest.
const unfair = 1.5

// measureGroups: Cell.Runs groups over all hosts call an allgather at once, when all of them have formed. What all of them take is set beside the bound of an allgather with
// the bytes of all, and the slowest beside the fastest.
func measureGroups(t *testing.T, r *Reading) {
	onGrid(t, r.Cell, load(t, r.Cell.Network), func(cl *gridtest.Cluster) {
		n := r.Cell.Runs
		cl.MustRun(jobOf(cl, r.Cell, "")) // lanes are open
		time.Sleep(time.Second)
		whole := r.Cell
		whole.Size *= int64(n)
		r.Bound = cl.Bound(jobOf(cl, whole, "")).Seconds()

		jobs, results := make([]grid.Job, n), make([]*gridtest.Result, n)
		gate := grid.NewBarrier(n * len(cl.Hosts))
		for i := range jobs {
			jobs[i] = jobOf(cl, r.Cell, "")
			jobs[i].Name = fmt.Sprint("group ", i)
			jobs[i].Together = gate
		}
		var wg sync.WaitGroup
		for i := range jobs {
			wg.Go(func() { results[i] = cl.Run(jobs[i]) })
		}
		wg.Wait()
		together := time.Since(gate.Opened()).Seconds()
		fastest, slowest := results[0].Makespan, results[0].Makespan
		for i, got := range results {
			cl.Check(jobs[i], got)
			fastest, slowest = min(fastest, got.Makespan), max(slowest, got.Makespan)
			r.Makespans = append(r.Makespans, got.Makespan.Seconds())
		}
		r.Algorithm = results[0].Outcomes[0].Report.Algorithm
		r.check(fmt.Sprintf("time of all %d / bound of their sum", n), together/r.Bound, r.Cell.Limit)
		r.check("slowest / fastest", slowest.Seconds()/fastest.Seconds(), unfair)
	})
}
