package gridnet_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestDontFragment: over sockets that do not fragment, quic-go finds packets nearly as large as the path takes,
// and no pacer spins; over bare ones it stays at 1,280 bytes.
func TestDontFragment(t *testing.T) {
	for _, df := range []bool{false, true} {
		largest := 0
		cfg := gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 10 * time.Millisecond})
		cfg.OnPacket = func(e gridnet.Event) {
			if e.Kind == gridnet.Delivered {
				largest = max(largest, e.Size)
			}
		}
		gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
			conf := mutualTLS(t)
			open := func(host string) *node {
				c := gridtest.Listen(t, n, host)
				if df {
					return newNodeOn(t, gridnet.NewDontFragment(c), conf)
				}
				return newNodeOn(t, c, conf)
			}
			a, b := open("a0"), open("b0")
			defer b.close()
			defer a.close()
			var goodput float64
			g, ctx := errgroup.WithContext(t.Context())
			g.Go(func() (err error) { _, goodput, err = b.collect(ctx, 4<<20); return err })
			g.Go(func() error { return a.deliver(ctx, b, conf, 4<<20) })
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			least, most := 1200+gridnet.HeaderBytes, 1280+gridnet.HeaderBytes
			if df {
				least, most = 1430+gridnet.HeaderBytes, 1452+gridnet.HeaderBytes
			}
			if largest < least || largest > most {
				t.Errorf("do not fragment %v: packets of up to %d IP bytes, want %d to %d", df, largest, least, most)
			}
			if s := n.Stats(); s.Links[0].Dropped[gridnet.TooBig].Packets > 0 {
				t.Errorf("do not fragment %v: %d packets too big for a path that takes %d bytes", df, s.Links[0].Dropped[gridnet.TooBig].Packets, gridnet.MTU)
			}
			t.Logf("do not fragment %v: packets of up to %d IP bytes, %.1f %% of the rate", df, largest, 100*goodput/float64(20*gridnet.Mbps))
		})
	}
}
