package grid_test

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestUnevenBlocks: where one host has nearly all bytes of an allgather, it gets the link that its mates leave, over which the network holds each flow to an eighth.
func TestUnevenBlocks(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of eight agents: scripts/test runs it without the race detector")
	}
	g := gridtest.Sites(t, "1.25Mbps", "50ms", 4, 4)
	for i := range g.WAN {
		g.WAN[i].Capacity = 10 * netmap.Mbps
	}
	gridtest.Run(t, gridtest.Config{Grid: g, Seed: 7}, func(c *gridtest.Cluster) {
		time.Sleep(150 * time.Second)
		job := c.Job("", c.EachHost(), 1<<20, 1<<10)
		bound := c.Bound(job).Seconds()
		last := 0.
		for range 3 {
			r := c.MustRun(job)
			last = r.Makespan.Seconds() / bound
			c.T.Logf("%.2f times the bound of %.2f s by %s, predicted %.2f", last, bound, r.Outcomes[0].Report.Algorithm, r.Outcomes[0].Report.PredictedSeconds/bound)
			time.Sleep(2 * time.Second)
		}
		if last > unevenMost {
			c.T.Errorf("the last one took %.2f times the bound, want at most %v", last, unevenMost)
		}
	})
}

// unevenMost is well below what it took before parts told what crosses a link, 4.7 to 5.1. It takes 1.5 to 1.95.
const unevenMost = 2.5
