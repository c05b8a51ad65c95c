package lane_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestKindGoesWithTheFirstBytes: a stream of data is nothing on the way until something is written, and then what kind it is takes no packet of its own. One that is closed before
// comes as well.
func TestKindGoesWithTheFirstBytes(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: oneWay})
	for i := range cfg.Sites {
		cfg.Sites[i].Hosts = gridtest.Hosts(cfg.Sites[i].Name, 1)
	}
	gridtest.Run(t, cfg, func(t *testing.T, network *gridnet.Network) {
		c := newCluster(t, network)
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		came := make(chan int, 2)
		b.HandleStreams(lane.StreamData, func(_ context.Context, s *lane.Stream) {
			defer s.Abort()
			n, err := io.Copy(io.Discard, s)
			if err != nil {
				t.Error(err)
			}
			came <- int(n)
		})
		b.run(t)
		defer a.stop()
		defer b.stop()
		sent := func() uint64 { return network.Stats().Links[0].Delivered.Packets }
		if err := a.Connect(t.Context(), "b0", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it knows the size of its packets
		for _, size := range []int{1000, 0} {
			before := sent()
			s := a.open(t, "b0", lane.StreamData)
			time.Sleep(2 * oneWay)
			if got := sent() - before; got != 0 {
				t.Errorf("%d packets before anything was written", got)
			}
			if size > 0 {
				if n, err := s.WriteBoth(make([]byte, 10), make([]byte, size-10)); n != size || err != nil {
					t.Fatalf("wrote %d: %v", n, err)
				}
				time.Sleep(2 * oneWay) // connections are kept alive every 2 s
				if got := sent() - before; got != 1 {
					t.Errorf("%d packets for %d bytes, want 1", got, size)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if n := <-came; n != size {
				t.Errorf("%d bytes came of %d", n, size)
			}
		}
	})
}
