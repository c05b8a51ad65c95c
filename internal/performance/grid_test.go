package main

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// patience is how much wall time a cell gets.
const patience = time.Hour

// onGrid runs f on agents that have measured the grid for Cell.Settle. Their packets grow to what paths take,
// as they do outside the emulator.
func onGrid(t *testing.T, c Cell, g *gridfile.Grid, f func(*gridtest.Cluster)) {
	t.Helper()
	gridtest.Run(t, configOf(c, g), func(cl *gridtest.Cluster) {
		settle(cl, c)
		f(cl)
	})
}

// configOf is the grid of a cell. That of young agents comes before they have met: until all of them have a map as well some seconds pass, by which they would
// be older than their row says.
func configOf(c Cell, g *gridfile.Grid) gridtest.Config {
	return gridtest.Config{Grid: g, Seed: c.Seed, Limit: 4 * time.Hour, Patience: patience, PathMTU: true, Early: c.Row == Young}
}

// settle waits until the agents of c have measured for so long: from when they have met and have a map on, young ones from when they have met.
func settle(cl *gridtest.Cluster, c Cell) {
	cl.T.Helper()
	if c.Row == Young {
		if err := cl.WaitMembers(cl.Ctx); err != nil {
			cl.T.Fatalf("members: %v", err)
		}
	}
	time.Sleep(c.Settle)
}

// load reads a grid of configs/grids, or draws it.
func load(t *testing.T, name string) *gridfile.Grid {
	t.Helper()
	if g, err := drawn(name); err == nil {
		return g.File
	}
	return gridtest.Load(t, "../../configs/grids/"+name+".yaml")
}

// jobOf is the operation of c between a rank on every host.
func jobOf(cl *gridtest.Cluster, c Cell, algorithm string) grid.Job {
	if c.Collective == plan.Alltoall {
		return cl.Alltoall(algorithm, cl.EachHost(), func(s, d int) int { return int(c.Size) })
	}
	return cl.Job(algorithm, cl.EachHost(), int(c.Size))
}

// repeat runs a job Cell.Runs times, one behind the other, and notes what came of it.
func (r *Reading) repeat(cl *gridtest.Cluster, job grid.Job) {
	cl.T.Helper()
	for range r.Cell.Runs {
		r.once(cl, job)
		time.Sleep(time.Second) // queues empty
	}
}

// once runs a job and notes what came of it.
func (r *Reading) once(cl *gridtest.Cluster, job grid.Job) {
	cl.T.Helper()
	got := cl.MustRun(job)
	r.Makespans = append(r.Makespans, got.Makespan.Seconds())
	r.Lost = append(r.Lost, got.Lost)
	elapsed := 0.
	for _, o := range got.Outcomes {
		elapsed = max(elapsed, o.Report.Seconds)
	}
	report := got.Outcomes[0].Report
	r.Algorithm = report.Algorithm
	r.Predicted, r.Elapsed = append(r.Predicted, report.PredictedSeconds), append(r.Elapsed, elapsed)
}

// boundOf returns the bound of a job in seconds, of an alltoall the relayed one.
func boundOf(cl *gridtest.Cluster, job grid.Job) float64 {
	if job.Alltoall != nil {
		return cl.AlltoallBounds(job).Relayed.Seconds
	}
	return cl.Bound(job).Seconds()
}

// measureExchange: the makespan over the bound, in an alltoall over both bounds.
func measureExchange(t *testing.T, r *Reading) {
	onGrid(t, r.Cell, load(t, r.Cell.Network), func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		r.repeat(cl, job)
		if job.Alltoall != nil {
			b := cl.AlltoallBounds(job)
			r.Bound, r.Relayed = b.Direct.Seconds, b.Relayed.Seconds
			r.check("makespan / direct bound", median(r.Makespans)/r.Bound, r.Cell.Limit)
			r.check("makespan / relayed bound", median(r.Makespans)/r.Relayed, r.Cell.Relayed)
			return
		}
		r.Bound = cl.Bound(job).Seconds()
		r.check("makespan / bound", median(r.Makespans)/r.Bound, r.Cell.Limit)
	})
}
