package exchange

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestWindowOfWrongPath: a flow gets its link, be its round trip believed a quarter, half or twice
// as long as it is. Before [Path.over], a quarter made it take 7.3 s: what lies beyond what is
// believed is taken for a queue.
func TestWindowOfWrongPath(t *testing.T) {
	if gridtest.Race {
		t.Skip("megabytes: run without the race detector, which multiplies its CPU time by ten")
	}
	const rate = 20 * gridnet.Mbps
	trip := 40 * time.Millisecond
	for _, believed := range []time.Duration{trip / 4, trip / 2, trip, 2 * trip} {
		overGridnet(t, star(2, gridnet.Link{Rate: rate, Latency: trip / 2}), 1, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
			const span = 4 * time.Second
			start := time.Now()
			g.must(t, newJob(t, rand.New(rand.NewPCG(1, 91)), chain(2, int64(float64(rate)*span.Seconds())), 0))
			took := time.Since(start)
			if most := span * 5 / 4; took > most {
				t.Errorf("a path of %v believed to be of %v: took %v, want at most %v", trip, believed, took, most)
			}
		}, func(c *Config, _ *lane.Config) {
			c.Path = func(string) Path {
				return Path{RTT: believed, Rate: netmap.BytesPerSec(float64(rate) * payload), Flows: 1}
			}
		})
	}
}
