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
// map knows of no losses there. A spare lane makes up for that.
func TestEarlyLoss(t *testing.T) {
	const rate, trip = 20 * gridnet.Mbps, 250 * time.Millisecond
	link := netmap.BytesPerSec(float64(rate) * payload)
	path := Path{RTT: trip, Rate: link / 4, Capacity: link, Flows: 8}
	took := func(lose int64) (d time.Duration) {
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
	clean, early := took(0), took(3)
	t.Logf("1 MB: %v, after an early loss %v", clean, early)
	if early > clean*11/10 {
		t.Errorf("1 MB took %v after an early loss, %v without", early, clean)
	}
}
