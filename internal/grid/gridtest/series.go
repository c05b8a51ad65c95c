package gridtest

import (
	"context"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/client"
)

// A timed is one rank's call in a series: when it was made, and when it returned.
type timed struct{ called, returned time.Time }

// A meeting is where n goroutines wait for each other, again and again.
type meeting struct {
	mu   sync.Mutex
	n    int
	here int           // of those that are awaited
	open chan struct{} // closed when all are
}

// wait returns when all are here, or ctx ends.
func (m *meeting) wait(ctx context.Context) error {
	m.mu.Lock()
	open := m.open
	if m.here++; m.here == m.n {
		m.here, m.open = 0, make(chan struct{})
		close(open)
	}
	m.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Series has ranks on the given hosts (indices) form one group and call do again and again, all at the same instant: a rank that comes early has its data cross
// while nobody counts. Before each round is a pause, so that nobody is late because of the one before. It returns how long each round took
// from the calls to the last return. An error ends the test.
func (c *Cluster) Series(job string, hosts []int, rounds int, pause time.Duration, do func(ctx context.Context, r *client.Rank, rank int) error) []time.Duration {
	c.T.Helper()
	calls := make([][]timed, len(hosts))
	meet := &meeting{n: len(hosts), open: make(chan struct{})}
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
				if err := meet.wait(ctx); err != nil {
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
