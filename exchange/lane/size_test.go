package lane_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestSizeIsFoundBefore: a connection between sites knows how large its packets may be before anything is sent on it, at both ends, and nothing goes beside the data then.
func TestSizeIsFoundBefore(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: oneWay})
	for i := range cfg.Sites {
		cfg.Sites[i].Hosts = gridtest.Hosts(cfg.Sites[i].Name, 1)
	}
	gridtest.Run(t, cfg, func(t *testing.T, network *gridnet.Network) {
		c := newCluster(t, network)
		socket := func(host string) net.PacketConn { return gridnet.NewDontFragment(gridtest.Listen(t, network, host)) }
		rarely := func(c *lane.Config) { c.KeepAlive, c.IdleTimeout = 40*time.Second, 2*time.Minute }
		a, b := c.startOn(socket("a0"), "a0", rarely), c.prepare(socket("b0"), "b0", rarely)
		came := make(chan int, 1)
		b.HandleStreams(lane.StreamData, func(_ context.Context, s *lane.Stream) {
			defer s.Abort()
			came <- s.Payload()
		})
		b.run(t)
		defer a.stop()
		defer b.stop()
		if err := a.Connect(t.Context(), "b0", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s, err := a.Open(t.Context(), "b0", 1, lane.StreamData)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Abort()
		const ethernet = 1400 // of 1,500 bytes, and more than half a step of the search below what is possible
		if _, err := s.Write(make([]byte, 10)); err != nil || s.Payload() < ethernet {
			t.Errorf("packets of a minute-old connection carry %d bytes, %v", s.Payload(), err)
		}
		if got := <-came; got < ethernet {
			t.Errorf("at the other end they carry %d", got)
		}
	})
}
