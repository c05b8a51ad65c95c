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

// A mutedConn is a socket from and to which nothing comes through once muted is set.
type mutedConn struct {
	net.PacketConn
	muted *atomic.Bool
}

func (c mutedConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if c.muted.Load() {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, to)
}

func (c mutedConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(p)
		if err != nil || !c.muted.Load() {
			return n, from, err
		}
	}
}

// TestLanesLost: of the lanes to a host all that have sockets of their own fall silent, behind a firewall or on a path of their own, and their connections last a
// minute. What was on them goes by lane 0, and the way does not count as broken.
func TestLanesLost(t *testing.T) {
	const rate, trip, size = 8 * gridnet.Mbps, 60 * time.Millisecond, 8 << 20
	link := netmap.BytesPerSec(float64(rate) * payload)
	took := func(cut bool) (d time.Duration) {
		var network *gridnet.Network
		var muted atomic.Bool
		overGridnet(t, star(2, gridnet.Link{Rate: rate, Latency: trip / 2}), 0, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
			network = n
			timer := time.AfterFunc(time.Second, func() { muted.Store(cut) })
			defer timer.Stop()
			begun := time.Now()
			st := g.must(t, newJob(t, rand.New(rand.NewPCG(1, 112)), chain(2, size), 16<<10))
			d = time.Since(begun)
			s := st[0].Peers["host1"]
			t.Logf("cut %v: took %v, %d bytes copied, %d lanes broke", cut, d, s.Hedged, s.Broken)
			if g.engines["host0"].Broken("host1") || st[0].Detoured > 0 {
				t.Errorf("cut %v: the way counts as broken, %d bytes went by way of another host", cut, st[0].Detoured)
			}
			if cut == (s.Broken == 0) {
				t.Errorf("cut %v: %d lanes broke", cut, s.Broken)
			}
		}, func(c *Config, edge *lane.Config) {
			c.Lanes = nil
			c.Path = func(string) Path { return Path{RTT: trip, Rate: link / 3, Capacity: link, Loss: 0.001, Flows: 1} }
			edge.IdleTimeout, edge.KeepAlive = time.Minute, 25*time.Second // as agents have it
			host := c.Self
			edge.OpenSocket = func() (net.PacketConn, error) {
				s, err := network.Listen(host)
				return mutedConn{s, &muted}, err
			}
		})
		return d
	}
	if whole, cut := took(false), took(true); cut > 2*whole {
		t.Errorf("took %v, and %v undisturbed", cut, whole)
	}
}
