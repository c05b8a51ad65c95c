package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
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

// TestYoungAge: agents are as old at their first call as their row says, from the moment on when all of them see all others.
func TestYoungAge(t *testing.T) {
	if gridtest.Race {
		t.Skip("20 agents: run without the race detector, which multiplies its CPU time by ten")
	}
	c := Cell{Row: Young, Collective: plan.Allgather, Size: 8, Seed: 1, Settle: 2 * time.Second, Runs: 1} // less than the map takes
	gridtest.Run(t, configOf(c, load(t, heldGrid)), func(cl *gridtest.Cluster) {
		for _, h := range cl.Hosts {
			if h.Agent.Alive() == len(cl.Hosts) {
				cl.T.Fatalf("%s sees all others before anybody looks", h.Name)
			}
		}
		var met time.Time
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := cl.WaitMembers(cl.Ctx); err != nil {
				cl.T.Error(err)
			}
			met = time.Now()
		})
		settle(cl, c)
		called := time.Now()
		wg.Wait()
		if age := called.Sub(met); age != c.Settle {
			cl.T.Errorf("agents are %v old at their first call, want %v", age, c.Settle)
		}
		cl.MustRun(jobOf(cl, c, "")) // it goes well all the same
	})
}
