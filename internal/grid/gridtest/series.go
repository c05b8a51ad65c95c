package gridtest

import (
	"context"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid"
)

// A timed is one rank's call in a series: when it was made, and when it returned.
type timed struct{ called, returned time.Time }

// Series has ranks on the given hosts (indices) form one group and call do again and again, all at the same instant: a rank that comes early has its data cross
// while nobody counts. Before each round is a pause, so that nobody is late because of the one before. It returns how long each round took
// from the calls to the last return. An error ends the test.
func (c *Cluster) Series(job string, hosts []int, rounds int, pause time.Duration, do func(ctx context.Context, r *client.Rank, rank int) error) []time.Duration {
	c.T.Helper()
	calls := make([][]timed, len(hosts))
	gates := make([]*grid.Barrier, rounds)
	for i := range gates {
		gates[i] = grid.NewBarrier(len(hosts))
	}
	ctx, cancel := context.WithCancel(c.Ctx)
	defer cancel()
	var wg sync.WaitGroup
	for rank, host := range hosts {
		wg.Go(func() {
			cl := c.Client(host)
			defer cl.Close()
			r, err := cl.Join(c.Ctx, job, rank, len(hosts))
			if err != nil {
				c.T.Errorf("rank %d: %v", rank, err)
				cancel() // nobody waits for this one
				return
			}
			defer r.Close()
			for i := range rounds {
				time.Sleep(pause)
				if _, err := gates[i].Wait(ctx); err != nil {
					c.T.Errorf("rank %d, before round %d: %v", rank, i, err)
					return
				}
				t := timed{called: time.Now()}
				if err := do(c.Ctx, r, rank); err != nil {
					c.T.Errorf("rank %d, round %d: %v", rank, i, err)
					cancel()
					return
				}
				t.returned = time.Now()
				calls[rank] = append(calls[rank], t)
			}
		})
	}
	wg.Wait()
	if c.T.Failed() {
		c.T.FailNow()
	}
	took := make([]time.Duration, rounds)
	for i := range took {
		var last, end time.Time
		for _, of := range calls {
			if of[i].called.After(last) {
				last = of[i].called
			}
			if of[i].returned.After(end) {
				end = of[i].returned
			}
		}
		took[i] = end.Sub(last)
	}
	return took
}
