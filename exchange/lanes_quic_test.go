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

// TestLanesFillPath: what lanes get together of a long path, clean and lossy, and that the engine's own number fills
// it, be the losses known or found out under way (go test -v prints the table of docs/design/lanes.md).
func TestLanesFillPath(t *testing.T) {
	if gridtest.Race {
		t.Skip("megabytes: run without the race detector, which multiplies its CPU time by ten")
	}
	const rate, trip, own = 20 * gridnet.Mbps, 100 * time.Millisecond, 0
	link := netmap.BytesPerSec(float64(rate) * payload)
	clean := Path{RTT: trip, Rate: link}
	known := Path{RTT: trip, Rate: link / 12, Capacity: link, Loss: 0.01}
	for _, c := range []struct {
		name        string
		loss        float64
		path        Path
		lanes       int
		least, most float64 // share of the link
	}{
		{"clean", 0, clean, 1, 0.85, 1.02},
		{"clean, engine's number", 0, clean, own, 0.85, 1.02},
		{"1 % lost", 0.01, known, 4, 0.2, 0.75},
		{"1 % lost, engine's number", 0.01, known, own, 0.8, 1.02},
		{"1 % lost, not known", 0.01, clean, own, 0.5, 1.02},
	} {
		overGridnet(t, star(2, gridnet.Link{Rate: rate, Latency: trip / 2, Loss: c.loss}), c.lanes, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
			size := int64(float64(rate) * 4 * c.most) // 4 s at most
			start := time.Now()
			st := g.must(t, newJob(t, rand.New(rand.NewPCG(1, 92)), chain(2, size), 16<<10))
			share := float64(size) / time.Since(start).Seconds() / float64(link)
			t.Logf("%s, %d lanes: %.2f of the link; %d bytes copied", c.name, c.lanes, share, st[0].Peers["host1"].Hedged)
			if share < c.least || share > c.most {
				t.Errorf("%s, %d lanes got %.3f of the link, want %.2f to %.2f", c.name, c.lanes, share, c.least, c.most)
			}
		}, func(cfg *Config, _ *lane.Config) {
			cfg.Path = func(string) Path { return c.path }
			if c.lanes == own {
				cfg.Lanes = nil
			}
		})
	}
}
