package grid_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestFormsOverBroken: groups form though the way between their coordinator's site and another one is broken, and small and large
// operations of theirs work. The way broke just now, when connections seem to be there, or long ago. Jobs hash to
// different directories.
func TestFormsOverBroken(t *testing.T) {
	if gridtest.Race {
		t.Skip("five minutes of four agents: scripts/test runs it without the race detector, which has broken ways in TestBreaksUnderGroup")
	}
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

// TestBreaksUnderGroup: a way breaks for good, in one direction or both, under a formed group, in the middle of its operations or while it has nothing to
// do. Its hosts live, and a third one reaches both ends: the group goes on, also where it is its coordinator that loses
// a host.
func TestBreaksUnderGroup(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ranks []int // hosts: b's is 1 and 2, c's is 3
		ways  [][2]string
		idle  time.Duration
	}{
		{"reached", []int{0, 1, 3, 2}, [][2]string{{"b", "c"}, {"c", "b"}}, 0},
		{"not reached", []int{1, 0, 3, 2}, [][2]string{{"b", "c"}, {"c", "b"}}, 0},
		{"to the coordinator", []int{1, 0, 3, 2}, [][2]string{{"c", "b"}}, 0},
		{"from the coordinator", []int{1, 0, 3, 2}, [][2]string{{"b", "c"}}, 0},
		{"not reached, idle", []int{1, 0, 3, 2}, [][2]string{{"b", "c"}, {"c", "b"}}, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "2Mbps", "20ms", 1, 2, 1), Seed: 23}, func(c *gridtest.Cluster) {
				cut := time.AfterFunc(7*time.Second, func() {
					for _, w := range tt.ways {
						if err := c.Net.CutLink(w[0], w[1], true); err != nil {
							c.T.Error(err)
						}
					}
				})
				defer cut.Stop()
				began := time.Now()
				took := c.Series(tt.name, tt.ranks, 60, 200*time.Millisecond, func(ctx context.Context, r *client.Rank, rank int) error {
					if tt.idle > 0 && time.Since(began) > 6*time.Second && time.Since(began) < 6*time.Second+tt.idle {
						time.Sleep(tt.idle)
					}
					return barrier(ctx, r, rank)
				})
				worst := slices.Max(took)
				c.T.Logf("60 barriers in %v, the longest %v", time.Since(began), worst)
				if worst > tt.idle+promptly {
					c.T.Errorf("a barrier took %v", worst)
				}
				job := c.Job("", tt.ranks, 16<<10)
				c.MustRun(job)
			})
		})
	}
}
