package probe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// A train that looks whether a link is as it was begins as long as was enough last time: one train a session,
// and no more bytes than its last one took, whatever the rate.
func TestWatchBeginsLongEnough(t *testing.T) {
	for _, mbps := range []gridnet.Rate{1.16, 8, 20, 85, 289} {
		t.Run(fmt.Sprintf("%g Mbit/s", float64(mbps)), func(t *testing.T) {
			cfg := gridtest.Pair(gridnet.Link{Rate: mbps * gridnet.Mbps, Latency: 10 * time.Millisecond})
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				ms := w.joinAll(n, cfg, nil)
				w.run(ms, false, func(ctx context.Context) {
					p, peer := ms[0].prober, ms[1].peer
					p.look()
					var last result
					for i := range 4 {
						res, _, err := p.session(ctx, peer, watch)
						var busy *BusyError
						for errors.As(err, &busy) && ctx.Err() == nil { // the other end is not quite through with the last one
							time.Sleep(busy.Retry)
							res, _, err = p.session(ctx, peer, watch)
							busy = nil
						}
						if err != nil {
							t.Fatal(err)
						}
						t.Logf("%d trains, %d bytes, %d packets were enough: %.2f Mbit/s", res.Trains, res.Bytes, res.Enough, res.Bandwidth.Mbps())
						if i > 0 && (res.Trains != 1 || res.Bytes > last.Bytes) {
							t.Errorf("session %d: %d trains of %d bytes after %d of %d", i, res.Trains, res.Bytes, last.Trains, last.Bytes)
						}
						if off := apart(float64(res.Bandwidth), float64(truth(cfg.Links[0].Rate))); off > 0.06 {
							t.Errorf("session %d: reads %.2f Mbit/s, off by %.2f", i, res.Bandwidth.Mbps(), off)
						}
						last = res
					}
				})
			})
		})
	}
}
