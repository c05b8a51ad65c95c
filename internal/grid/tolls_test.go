package grid_test

import (
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestExchangesTellOfLosses: a grid that is busy from its first minute learns from its exchanges what its links lose; what full queues drop is not taken for it.
func TestExchangesTellOfLosses(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of two worlds: scripts/test runs it without the race detector")
	}
	for _, tt := range []struct {
		name, rate string
		loss       float64
		exchanges  int
		bytes      int
	}{{"lossy", "20Mbps", 0.02, 40, 64 << 10}, {"full", "2Mbps", 0, 10, 128 << 10}} {
		t.Run(tt.name, func(t *testing.T) {
			g := gridtest.Sites(t, tt.rate, "50ms", 3, 3)
			for i := range g.WAN {
				g.WAN[i].Loss = tt.loss
			}
			gridtest.Run(t, gridtest.Config{Grid: g, Seed: 3}, func(c *gridtest.Cluster) {
				time.Sleep(15 * time.Second)
				lost := 0
				for range tt.exchanges {
					lost += c.MustRun(c.Job("", c.EachHost(), tt.bytes)).Lost
				}
				snap := c.Map()
				hosts := snap.Hosts()
				var allOf, allGone float64
				for _, from := range []string{"a", "b"} {
					var of, gone float64
					for i := range snap.N() {
						for j := range snap.N() {
							if e := snap.Estimate(i, j); hosts[i].Site == from && hosts[j].Site != from && e.Has(netmap.FieldLoss) {
								of, gone = of+float64(e.LossOf), gone+e.Loss*float64(e.LossOf)
							}
						}
					}
					c.T.Logf("from %s: %.0f of %.0f packets lost by the map; %d lost in all", from, gone, of, lost)
					allOf, allGone = allOf+of, allGone+gone
					switch {
					case tt.loss == 0 && gone > 0, tt.loss > 0 && gone <= 0:
						c.T.Errorf("from %s: the map says that %.0f of %.0f packets are lost, want a share of %g", from, gone, of, tt.loss)
					case tt.loss == 0 && lost < 100:
						c.T.Errorf("%d packets were lost: no queue was full", lost)
					}
				}
				// Lanes count acknowledgements among what they sent, which are never told as lost. The
				// rest is chance: three standard deviations of a count, over both directions.
				want := tt.loss * allOf
				if tt.loss > 0 && allOf < 1800 {
					c.T.Errorf("the map tells of %.0f packets: no more than probes have seen", allOf) // 1,200 to 1,550 without exchanges, mostly 4,000 to 15,800 with them, 2,000 now and then and twice in 24 runs 1,000
				}
				chance := 3 * math.Sqrt(want)
				if least, most := 0.8*want-chance, 1.2*want+chance; allGone < least || allGone > most {
					c.T.Errorf("the map says that %.0f of %.0f packets are lost, want %.0f … %.0f", allGone, allOf, least, most)
				}
			})
		})
	}
}
