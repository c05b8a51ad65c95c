package probe

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestGlance: seconds after the start the map says what the links of a grid that holds each flow carry, and nothing of links that
// one flow fills, nor more of those where losses decide.
func TestGlance(t *testing.T) {
	if gridtest.Race {
		t.Skip("six worlds: run without the race detector, which multiplies its CPU time by ten")
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		link gridnet.Link
		held float64 // of what the link carries; 0: no flow is held
		soon time.Duration
	}{
		{"8 Mbit/s, a flow 1", gridnet.Link{Rate: 8 * gridnet.Mbps, FlowRate: gridnet.Mbps, Latency: 50 * ms}, 1, 12 * time.Second},
		{"40 Mbit/s, a flow 10", gridnet.Link{Rate: 40 * gridnet.Mbps, FlowRate: 10 * gridnet.Mbps, Latency: 40 * ms}, 1, 12 * time.Second},
		{"3 Mbit/s, a flow 2, 1 ms", gridnet.Link{Rate: 3 * gridnet.Mbps, FlowRate: 2 * gridnet.Mbps, Latency: ms / 2}, 1, 12 * time.Second},
		{"64 Mbit/s, a flow 2", gridnet.Link{Rate: 64 * gridnet.Mbps, FlowRate: 2 * gridnet.Mbps, Latency: 20 * ms}, glanceLanes / 32., 12 * time.Second},
		{"1.2 Mbit/s, shared", gridnet.Link{Rate: 1.2 * gridnet.Mbps, Latency: 50 * ms}, 0, 12 * time.Second},
		{"20 Mbit/s, losses", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 50 * ms, Loss: 0.02}, 0, 12 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := sitesOver(tt.link, 3)
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := &bulkWorld{world: newWorld(t), n: n}
				members := w.joinSites(cfg)
				w.run(members, true, func(context.Context) {
					time.Sleep(tt.soon)
					s := netmap.Predict(w.snapshot())
					for i := range s.N() {
						for j := range s.N() {
							e := s.Estimate(i, j)
							if s.Host(i).Site == s.Host(j).Site || e.Has(netmap.FieldLanes) { // somebody has searched already
								continue
							}
							want := tt.held * linkTruth(tt.link.Rate)
							switch off := float64(e.Carried)/want - 1; {
							case want == 0 && e.Has(netmap.FieldCarried):
								t.Errorf("%s→%s is said to carry %.3g Mbit/s", s.Host(i).Name, s.Host(j).Name, e.Carried.Mbps())
							case want > 0 && !(math.Abs(off) < 0.1):
								t.Errorf("%s→%s is said to carry %.3g Mbit/s, want %.3g", s.Host(i).Name, s.Host(j).Name, e.Carried.Mbps(), netmap.BytesPerSec(want).Mbps())
							}
						}
					}
				})
			})
		})
	}
}

// TestPeak: what counts is what arrived for long enough.
func TestPeak(t *testing.T) {
	b := &bulkSink{}
	if got := b.peak(time.Second); got != 0 {
		t.Errorf("of nothing %g", got)
	}
	for i, bytes := range []int64{0, 10, 40, 240, 250, 260} { // 200 bytes at once, which no half second has
		b.told = append(b.told, sample{at: time.Duration(i) * 100 * time.Millisecond, bytes: bytes})
	}
	if got := b.peak(400 * time.Millisecond); math.Abs(got-625) > 1e-6 {
		t.Errorf("%g bytes a second in 0.4 s, want 625", got)
	}
	if got := b.peak(time.Second); got != 0 {
		t.Errorf("%g bytes a second in a second, of which half was seen", got)
	}
}
