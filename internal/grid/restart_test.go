package grid_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestRestarted cuts the power of a host in the middle of an exchange and starts its agent again, seconds later. From then on it is a host like
// any other: operations with it work at once, though the others had found no way to it. The one that is
// lost coordinates the group, or another one does.
func TestRestarted(t *testing.T) {
	for seed := range uint64(6) {
		if gridtest.Race && seed >= 2 {
			break // two are enough, at five times the CPU time
		}
		gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 1, 1, 1), Seed: seed}, func(c *gridtest.Cluster) {
			rng := rand.New(rand.NewPCG(seed, 71))
			for round := range 4 {
				hosts := rng.Perm(3)
				kill := hosts[rng.IntN(3)]
				job := c.Job("", hosts, 256<<10)
				var at time.Time
				job.Ready = func() {
					time.Sleep(time.Duration(rng.IntN(450)) * time.Millisecond) // of more than 500
					at = time.Now()
					if err := c.Kill(kill); err != nil {
						c.T.Error(err)
					}
				}
				rank := slices.Index(hosts, kill)
				through := func(int) bool { return true }
				// One that had not come to its coordinator yet is waited for, for 5 s longer.
				lostBut(c, job, c.Run(job), through, rank, at.Add(5*time.Second), rank)
				time.Sleep(time.Duration(rng.IntN(10_000)) * time.Millisecond)
				if err := c.Restart(kill); err != nil {
					c.T.Fatal(err)
				}
				began := time.Now()
				if err := c.WaitMembers(c.Ctx); err != nil {
					c.T.Fatal(err)
				}
				for k := range 3 {
					after := c.Job("", rng.Perm(3), 10_000<<k)
					ctx, cancel := context.WithTimeout(c.Ctx, 40*time.Second)
					after.Context = func(int) context.Context { return ctx }
					for r, o := range c.Run(after).Outcomes {
						if o.Err != nil {
							c.T.Errorf("seed %d, round %d: operation %d, %v after the restart, rank %d: %v", seed, round, k, time.Since(began), r, o.Err)
						}
					}
					cancel()
					time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
				}
				if c.T.Failed() {
					return
				}
			}
		})
	}
}
