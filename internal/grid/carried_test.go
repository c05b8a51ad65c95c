package grid_test

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestExchangesTellOfCapacity: a grid that is busy from its first seconds learns from glances and exchanges what its links carry at least. Where the network holds each
// flow it knows of no more than that before; a link that one flow fills is not taken for more than it is.
func TestExchangesTellOfCapacity(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of two worlds: scripts/test runs it without the race detector")
	}
	for _, tt := range []struct {
		name      string
		held      bool
		low, most float64 // of the capacity
	}{{"held", true, 0.5, 1.05}, {"shared", false, 0, 1.1 / 8}} {
		t.Run(tt.name, func(t *testing.T) {
			g := gridtest.Sites(t, "1Mbps", "50ms", 4, 4)
			for i := range g.WAN {
				if tt.held {
					g.WAN[i].Capacity, g.WAN[i].HeldBy = 8*netmap.Mbps, gridfile.HeldByCeiling
				}
			}
			gridtest.Run(t, gridtest.Config{Grid: g, Seed: 3}, func(c *gridtest.Cluster) {
				time.Sleep(time.Second) // the first bulk probe comes 8 s after the start
				for range 6 {
					c.MustRun(c.Job("", c.EachHost(), 256<<10))
				}
				snap := netmap.Predict(c.Map())
				hosts := snap.Hosts()
				for i := range snap.N() {
					for j := range snap.N() {
						if hosts[i].Site == hosts[j].Site {
							continue
						}
						e := snap.Estimate(i, j)
						if e.Has(netmap.FieldLanes) {
							c.T.Fatalf("%s→%s: %d lanes: somebody has searched", hosts[i].Name, hosts[j].Name, e.Lanes)
						}
						if share := e.Carried.Mbps() / 8; share < tt.low || share > tt.most {
							c.T.Errorf("%s→%s: %.2f Mbit/s were seen on exchanges, want %.2g to %.2g of 8", hosts[i].Name, hosts[j].Name, e.Carried.Mbps(), tt.low, tt.most)
						}
					}
				}
			})
		})
	}
}
