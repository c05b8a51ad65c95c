package grid_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestFormsOverBroken: groups form though the way between their coordinator's site and another one is broken, and small and large
// operations of theirs work. The way broke just now, when connections seem to be there, or long ago. Jobs hash to
// different directories.
func TestFormsOverBroken(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "2Mbps", "20ms", 1, 2, 1), Seed: 19}, func(c *gridtest.Cluster) {
		ranks := []int{1, 0, 3, 2} // rank 0, and so the coordinator, is in site b; c's host cannot reach it
		c.Series("before", ranks, 2, time.Second, barrier)
		if err := c.Net.Cut("b", "c"); err != nil {
			c.T.Fatal(err)
		}
		for _, name := range []string{"just now", "a moment ago", "long ago"} {
			if name == "long ago" {
				time.Sleep(5 * time.Minute)
			}
			began := time.Now()
			took := c.Series(name, ranks, 3, time.Second, barrier)
			c.T.Logf("%s: all in %v, barriers %v", name, time.Since(began), took)
			// A second between barriers; the way is found broken once for the directory and once for the coordinator, at most.
			if d := time.Since(began); d > promptly+3*time.Second {
				c.T.Errorf("%s: forming and three barriers took %v", name, d)
			}
			job := c.Job("min3", ranks, 16<<10)
			job.Name = "allgather " + name
			began = time.Now()
			r := c.MustRun(job)
			c.T.Logf("%s: allgather %v, with its forming %v; the bound was %v", name, r.Makespan, time.Since(began), c.Bound(job))
		}
	})
}

func barrier(ctx context.Context, r *client.Rank, _ int) error {
	_, err := r.Barrier(ctx, client.Options{})
	return err
}

// TestBreaksWhileIdle: a way breaks under a formed group that has nothing to do. If its coordinator reaches everybody, the next
// operations work. If not, the group fails for all with the loss of a rank, as when a host dies, and the next group forms.
func TestBreaksWhileIdle(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "2Mbps", "20ms", 1, 2, 1), Seed: 23}, func(c *gridtest.Cluster) {
		broken := func(name string, ranks []int, idle time.Duration) (errs []error, took time.Duration) {
			var wg sync.WaitGroup
			errs = make([]error, len(ranks))
			ready := make(chan struct{})
			for rank, host := range ranks {
				wg.Go(func() {
					cl := c.Client(host)
					defer cl.Close()
					r, err := cl.Join(c.Ctx, name, rank, len(ranks))
					if err != nil {
						errs[rank] = err
						return
					}
					defer r.Close()
					for range 20 {
						if errs[rank] = barrier(c.Ctx, r, rank); errs[rank] != nil {
							return
						}
					}
					<-ready
					for range 5 {
						if errs[rank] = barrier(c.Ctx, r, rank); errs[rank] != nil {
							return
						}
					}
				})
			}
			time.Sleep(5 * time.Second)
			if err := c.Net.Cut("b", "c"); err != nil {
				c.T.Fatal(err)
			}
			time.Sleep(idle)
			began := time.Now()
			close(ready)
			wg.Wait()
			return errs, time.Since(began)
		}
		errs, took := broken("reached", []int{0, 1, 3, 2}, 0)
		c.T.Logf("coordinator reaches all: %v", took)
		for rank, err := range errs {
			if err != nil || took > promptly {
				c.T.Errorf("coordinator reaches all: rank %d: %v after %v", rank, err, took)
			}
		}
		if err := c.Net.Heal("b", "c"); err != nil {
			c.T.Fatal(err)
		}
		time.Sleep(70 * time.Second) // until nobody takes the way for broken
		errs, took = broken("not reached", []int{1, 0, 3, 2}, 30*time.Second)
		c.T.Logf("coordinator does not reach one: %v, %v", took, errs)
		for rank, err := range errs {
			var f *client.GroupError
			if !errors.As(err, &f) || f.Kind != "rank_lost" || took > time.Second {
				c.T.Errorf("coordinator does not reach one: rank %d: %v after %v, want the loss of a rank", rank, err, took)
			}
		}
		c.Series("next", []int{1, 0, 3, 2}, 2, time.Second, barrier)
	})
}
