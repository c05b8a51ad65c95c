package probe

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestBulkNotes: what limits a rate is said, and nothing where nothing does.
func TestBulkNotes(t *testing.T) {
	for _, tt := range []struct {
		r    bulkResult
		k    Kind
		want []string
	}{
		{bulkResult{Enough: true}, KindBandwidth, nil},
		{bulkResult{Enough: true, Knee: true}, KindCapacity, nil},
		{bulkResult{}, KindBandwidth, []string{noteUnsettled}},
		{bulkResult{Enough: true}, KindCapacity, []string{noteNoKnee}},
		{bulkResult{Knee: true, Limited: true, Shaped: true}, KindCapacity, []string{noteHost, noteShaped}},
	} {
		if got := tt.r.notes(tt.k); !slices.Equal(got, tt.want) {
			t.Errorf("%+v for %v: %q, want %q", tt.r, tt.k, got, tt.want)
		}
	}
}

// TestAskFallsBackToTrains: where a bulk transfer reads no rate in what the hourly cap leaves for it, the
// answer is what trains read, and says so. Once the cap is reached the answer is that, at once.
func TestAskFallsBackToTrains(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 100 * gridnet.Mbps, Latency: 50 * time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, func(c *Config) { c.HourlyCap = 1 << 20 })
		w.run(ms, false, func(ctx context.Context) {
			ms[0].prober.charge(1<<20 - 200<<10)
			a, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, KindBandwidth, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(a.Notes, noteTrains) {
				t.Errorf("no word of the trains in %q", a.Notes)
			}
			if off := math.Abs(float64(a.Bandwidth/truth(100*gridnet.Mbps)) - 1); off > 0.05 {
				t.Errorf("%.3g Mbit/s, want what trains read, %.3g", a.Bandwidth.Mbps(), truth(100*gridnet.Mbps).Mbps())
			}
			if err := a.check(); err != nil {
				t.Error(err)
			}
			ms[0].prober.charge(1 << 20)
			begin := time.Now()
			_, err = ms[0].prober.ProbeOnce(ctx, ms[1].peer, KindBandwidth, nil)
			var capped *CapError
			if !errors.As(err, &capped) || capped.Cap != 1<<20 || !strings.Contains(err.Error(), "its cap is 1 MiB") {
				t.Errorf("above the cap: %v", err)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("it took %v to say that the cap is reached", took)
			}
		})
	})
}
