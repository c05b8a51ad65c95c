package grid_test

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestBlindLinks: agents that have just met know what one flow gets of a link. Where it carries ten times that, their first operation finds out, and the next ones begin with it; where it does
// not, nothing is lost.
func TestBlindLinks(t *testing.T) {
	if gridtest.Race {
		t.Skip("two worlds of eight agents: scripts/test runs it without the race detector")
	}
	for _, link := range []struct {
		name        string
		flow        string
		all         netmap.BytesPerSec
		first, next float64 // times the bound, at most
	}{{"held", "1.25Mbps", 12.5 * netmap.Mbps, 5, 3.2}, {"shared", "2.5Mbps", 0, 1.5, 1.35}} {
		t.Run(link.name, func(t *testing.T) {
			g := gridtest.Sites(t, link.flow, "21ms", 5, 3)
			for i := range g.WAN {
				if link.all > 0 {
					g.WAN[i].Capacity, g.WAN[i].HeldBy = link.all, gridfile.HeldByCeiling
				}
			}
			gridtest.Run(t, gridtest.Config{Grid: g, Seed: 5}, func(c *gridtest.Cluster) {
				time.Sleep(5 * time.Second) // long probes begin later
				job := c.Alltoall("", c.EachHost(), func(int, int) int { return 64 << 10 })
				bound := c.AlltoallBounds(job).Relayed.Seconds
				for i := range 3 {
					got := c.MustRun(job).Makespan.Seconds() / bound
					c.T.Logf("%.2f times the bound of %.2f s", got, bound)
					if most := link.next; i > 0 && got > most {
						c.T.Errorf("operation %d took %.2f times the bound, want at most %v", i+1, got, most)
					} else if i == 0 && got > link.first {
						c.T.Errorf("the first operation took %.2f times the bound, want at most %v", got, link.first)
					}
				}
			})
		})
	}
}
