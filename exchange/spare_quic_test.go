package exchange

import (
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A leakyConn loses the packet of data that is lose packets ahead, 0: none.
type leakyConn struct {
	net.PacketConn
	lose atomic.Int64
}

func (c *leakyConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if len(p) > 1000 && c.lose.Load() > 0 && c.lose.Add(-1) == 0 {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, to)
}

// TestEarlyLoss: one packet that a pair of hosts lost before leaves it a congestion window of less than half of what its part of a long path takes, and the
// map knows of no losses there. A spare lane makes up for that, also where one flow fills the path: but for a handshake and its slow start.
func TestEarlyLoss(t *testing.T) {
	const rate, trip = 20 * gridnet.Mbps, 250 * time.Millisecond
	link := netmap.BytesPerSec(float64(rate) * payload)
	took := func(path Path, lose int64) (d time.Duration) {
		var conn leakyConn
		overGridnet(t, star(2, gridnet.Link{Rate: rate, Latency: trip / 2}), 0, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
			rng := rand.New(rand.NewPCG(1, 93))
			p := alltoallPlan(rng, 2, 0)
			for _, op := range []struct{ size, lose int64 }{{1000, 0}, {40_000, lose}, {1_000_000, 0}} {
				p.MessageBytes = op.size
				conn.lose.Store(op.lose)
				start := time.Now()
				g.must(t, newJob(t, rng, p, 8<<10))
				d = time.Since(start)
			}
		}, func(cfg *Config, edge *lane.Config) {
			cfg.Path, cfg.Lanes = func(string) Path { return path }, nil
			if cfg.Self == "host0" {
				conn.PacketConn = edge.Conn
				edge.Conn = &conn
			}
		})
		return d
	}
	for _, c := range []struct {
		path Path
		most float64
	}{
		{Path{RTT: trip, Rate: link / 4, Capacity: link, Flows: 8}, 1.1},
		{Path{RTT: trip, Rate: link, Capacity: link, Flows: 1}, 2},
	} {
		clean, early := took(c.path, 0), took(c.path, 3)
		t.Logf("%d pairs, 1 MB: %v, after an early loss %v", c.path.Flows, clean, early)
		if early.Seconds() > c.most*clean.Seconds() {
			t.Errorf("%d pairs: 1 MB took %v after an early loss, %v without", c.path.Flows, early, clean)
		}
	}
}
