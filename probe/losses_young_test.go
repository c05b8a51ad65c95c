package probe

import (
	"context"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestFirstTrainsTellLosses: the first trains of all pairs of two sites together tell what share of packets their link loses, before any
// pair could, and find none where a young grid's own talk fills a slow link.
func TestFirstTrainsTellLosses(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		link gridnet.Link
		lost float64
	}{
		{"3 % of 20 Mbit/s", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 50 * ms, Loss: 0.03}, 0.03},
		{"none of 1.2 Mbit/s", gridnet.Link{Rate: 1.2 * gridnet.Mbps, Latency: 50 * ms}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := sitesOver(tt.link, 5)
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := &bulkWorld{world: newWorld(t), n: n}
				w.run(w.joinSites(cfg), true, func(context.Context) {
					time.Sleep(30 * time.Second)
					s := w.snapshot()
					of, lost := map[string]int{}, map[string]float64{}
					for i := range s.N() {
						for j := range s.N() {
							if a, b, e := s.Host(i).Site, s.Host(j).Site, s.Estimate(i, j); a != b && e.Has(netmap.FieldLoss) && e.LossOf < netmap.LossEnough {
								of[a+"→"+b] += e.LossOf
								lost[a+"→"+b] += e.Loss * float64(e.LossOf)
							}
						}
					}
					for _, d := range []string{"a→b", "b→a"} {
						share := lost[d] / float64(of[d])
						t.Logf("%s: %.0f of %d", d, lost[d], of[d])
						// Of a thousand packets 30 are lost, give or take 6.
						if of[d] < 200 || tt.lost == 0 && lost[d] > 0 || share > 2*tt.lost || share < tt.lost/2 {
							t.Errorf("%s: %.0f of %d packets were lost, want %.3g of them", d, lost[d], of[d], tt.lost)
						}
					}
				})
			})
		})
	}
}
