package grid_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// held is what the process holds.
type held struct {
	heap       float64 // MB
	goroutines int
}

func holds() held {
	synctest.Wait()
	runtime.GC()
	runtime.GC() // what the first one has put on finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{float64(m.HeapAlloc) / 1e6, runtime.NumGoroutine()}
}

// TestGroupsHeldOpen: what an agent holds for each of many groups that are open and idle is small, and gone when they are closed.
func TestGroupsHeldOpen(t *testing.T) {
	if gridtest.Race {
		t.Skip("eight minutes of ten agents and twelve groups: scripts/test runs it without the race detector, which has groups beside each other in TestManyJobs")
	}
	const groups = 12
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "10Mbps", "10ms", 4, 3, 3), Seed: 3}, func(c *gridtest.Cluster) {
		n := len(c.Hosts)
		open := func(name string) []*group.Rank {
			ranks := make([]*group.Rank, n)
			var wg sync.WaitGroup
			for i := range ranks {
				wg.Go(func() {
					r, err := c.Hosts[i].Agent.Groups().Join(c.Ctx, name, i, n, group.JoinOptions{})
					if err != nil {
						c.T.Errorf("%s: rank %d: %v", name, i, err)
						return
					}
					ranks[i] = r
					if res, err := r.Allgather(c.Ctx, group.Bytes(make([]byte, 8<<10)), group.Wish{}); err != nil {
						c.T.Errorf("%s: rank %d: %v", name, i, err)
					} else {
						res.Release()
					}
				})
			}
			wg.Wait()
			if c.T.Failed() {
				c.T.FailNow()
			}
			return ranks
		}
		leave := func(ranks []*group.Rank) {
			for _, r := range ranks {
				r.Leave("")
			}
		}
		leave(open("first")) // lanes are open, the planner has learnt
		time.Sleep(3 * time.Minute)
		before := holds()
		var all [][]*group.Rank
		for i := range groups {
			all = append(all, open(fmt.Sprint("held ", i)))
		}
		time.Sleep(time.Minute)
		sent := c.Net.Stats()
		during := holds()
		time.Sleep(time.Minute)
		var beats float64
		for i, h := range c.Net.Stats().Hosts {
			beats += float64(h.Egress.Delivered.Bytes - sent.Hosts[i].Egress.Delivered.Bytes)
		}
		for _, ranks := range all {
			leave(ranks)
		}
		time.Sleep(3 * time.Minute)
		after := holds()
		share := float64(n * groups)
		c.T.Logf("before %.1f MB and %d goroutines, with %d groups %.1f and %d, after %.1f and %d; a group and host %.1f kB and %.1f goroutines; all hosts send %.0f B/s",
			before.heap, before.goroutines, groups, during.heap, during.goroutines, after.heap, after.goroutines,
			(during.heap-before.heap)*1e3/share, float64(during.goroutines-before.goroutines)/share, beats/60)
		if each := (during.heap - before.heap) * 1e3 / share; each > 300 {
			c.T.Errorf("a group takes %.0f kB of a host, want at most 300", each)
		}
		if left := after.goroutines - before.goroutines; left > n {
			c.T.Errorf("%d goroutines are left of %d groups", left, groups)
		}
	})
}
