package grid_test

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestLinkFasterThanPorts: a link between sites that carries what the ports of several hosts do. One pair of hosts, which is what probes are, gets a port's
// rate of it, whoever searches. Alltoalls use more, and from what they get of it the grid learns that there is more.
func TestLinkFasterThanPorts(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of eight agents: scripts/test runs it without the race detector")
	}
	const port, link = 20, 60 // Mbit/s
	g := gridtest.Sites(t, "60Mbps", "20ms", 4, 4)
	for i := range g.Sites {
		g.Sites[i].LAN.Bandwidth = port * netmap.Mbps
	}
	gridtest.Run(t, gridtest.Config{Grid: g, Seed: 5}, func(c *gridtest.Cluster) {
		time.Sleep(150 * time.Second)
		job := c.Alltoall("", c.EachHost(), func(_, _ int) int { return 512 << 10 })
		bound := c.AlltoallBounds(job).Direct.Seconds
		last := 0.
		for range 4 {
			r := c.MustRun(job)
			last = r.Makespan.Seconds() / bound
			c.T.Logf("%.2f times the bound", last)
			time.Sleep(2 * time.Second)
		}
		if last > 1.75 { // it was 1.86 to 1.99, and is 1.31 to 1.55
			c.T.Errorf("the last alltoall took %.2f times the bound, want at most 1.75", last)
		}
		snap := netmap.Predict(c.Map())
		hosts := snap.Hosts()
		for i := range snap.N() {
			for j := range snap.N() {
				if hosts[i].Site == hosts[j].Site {
					continue
				}
				one, _ := snap.Capacity(i, j)
				all, _ := snap.Link(i, j)
				if all.Mbps() < 1.5*port || all.Mbps() > link {
					c.T.Errorf("%s→%s: the link is believed to carry %.1f Mbit/s, want %v to %v", hosts[i].Name, hosts[j].Name, all.Mbps(), 1.5*port, link)
				}
				if e := snap.Estimate(i, j); e.Has(netmap.FieldCapacity) && one.Mbps() > port {
					c.T.Errorf("%s→%s: %.1f Mbit/s for one pair of hosts, whose ports have %v", hosts[i].Name, hosts[j].Name, one.Mbps(), port)
				}
			}
		}
	})
}
