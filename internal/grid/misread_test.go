package grid_test

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestMisread: of a host whose pairs read three fifths of a slow link, as pairs do that read it beside other probes, all believe that it has as much of the link as others, and operations take no longer. In a lab, where
// the queue of the other direction kept it from sending more than it believed, such a host was the last one in each operation, by up to half as long as all others took.
func TestMisread(t *testing.T) {
	const misread = 0.6
	cfg := gridtest.Config{Grid: gridtest.Sites(t, "1Mbps", "20ms", 4, 5), Seed: 3}
	cfg.Agent = func(o *agent.Options) {
		if o.Identity.Settings.Host != "b3" {
			return
		}
		o.Probe = func(c *probe.Config) {
			record := c.Record
			c.Record = func(from, to string, e netmap.Estimate) {
				if to[0] == 'a' {
					e = scaled(e, misread)
				}
				record(from, to, e)
			}
		}
	}
	gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
		time.Sleep(time.Minute)
		snap := netmap.Predict(c.Map())
		for i := range snap.N() {
			for j := range snap.N() {
				from, to := snap.Host(i), snap.Host(j)
				if e := snap.Estimate(i, j); from.Site == "b" && to.Site == "a" && e.Capacity < 0.9*netmap.Mbps {
					c.T.Errorf("%s→%s is believed to share %.2f Mbit/s", from.Name, to.Name, e.Capacity.Mbps())
				}
			}
		}
		job := c.Job("", c.EachHost(), 64<<10)
		for n := range 3 {
			took, bound := c.MustRun(job).Makespan, c.Bound(job)
			c.T.Logf("%v, bound %v", took, bound)
			if n > 0 && took > bound*5/4 { // the first one opens lanes
				c.T.Errorf("allgather %d took %v, bound %v", n, took, bound)
			}
			time.Sleep(time.Second)
		}
	})
}
