package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// TestTCPExchanges runs plans of all kinds over TCP lanes of the kernel, again and again over the same
// connections.
func TestTCPExchanges(t *testing.T) {
	const hosts = 5
	g := newLoopbackGrid(t, hostNames(hosts), true)
	defer g.stop()
	conns := func() (n int) {
		for _, ep := range g.eps {
			for _, h := range hostNames(hosts) {
				n += ep.TCPTraffic(h).Conns
			}
		}
		return n / 2
	}
	var moved uint64
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 62))
		p := ringPlan(hosts)
		if seed%2 == 0 {
			p.Sizes = []int64{int64(rng.IntN(1 << 20)), 0, 1, int64(rng.IntN(70001)), int64(rng.IntN(3000))}
		} else {
			p = alltoallPlan(rng, hosts, rng.Float64())
			p.MessageBytes = int64(rng.IntN(1 << (1 + seed)))
			synchronise(rng, p, 20)
		}
		j := newJob(t, rng, p, []int{0, 1 << 10, 7000, 128 << 10}[rng.IntN(4)])
		for _, st := range g.must(t, j) {
			for _, peer := range st.Peers {
				moved += uint64(peer.Received)
				if peer.Broken > 0 || peer.Resent > 0 {
					t.Errorf("seed %d: %+v on a network without faults", seed, peer)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	// A host pair needs a connection a direction; a few more are made while the end of the last
	// exchange is still being told.
	if n := conns(); n > 4*hosts*(hosts-1) {
		t.Errorf("%d connections after 12 exchanges of %d hosts", n, hosts)
	}
	var over uint64
	for _, ep := range g.eps {
		for _, h := range hostNames(hosts) {
			over += ep.TCPTraffic(h).Received
		}
	}
	if over < moved {
		t.Errorf("%d bytes went over TCP, the exchanges moved %d", over, moved)
	}
}

// A fragile connection breaks after so many bytes.
type fragile struct {
	net.Conn
	left   *atomic.Int64
	broken *atomic.Int64
}

func (c fragile) Write(p []byte) (int, error) {
	if c.left.Add(-int64(len(p))) < 0 {
		c.broken.Add(1)
		c.Close()
		return 0, errors.New("cut by the test")
	}
	return c.Conn.Write(p)
}

// TestTCPBreaks breaks connections in the middle of exchanges: what had not arrived is sent again
// over new ones.
func TestTCPBreaks(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 63))
		var broken atomic.Int64
		dial := lane.DialTCP(netip.Addr{})
		lives := rand.New(rand.NewPCG(seed, 64))
		g := newLoopbackGrid(t, hostNames(3), true, func(_ *Config, edge *lane.Config) {
			left := int64(20_000 + lives.IntN(400_000))
			n := new(atomic.Int64) // of this host: the first three connections are fragile
			edge.DialTCP = func(ctx context.Context, a net.Addr, cc string) (net.Conn, error) {
				c, err := dial(ctx, a, cc)
				if err != nil || n.Add(1) > 3 {
					return c, err
				}
				budget := new(atomic.Int64)
				budget.Store(left)
				return fragile{c, budget, &broken}, nil
			}
		})
		p := ringPlan(3)
		p.Sizes = []int64{600_000, 1, 900_000}
		g.must(t, newJob(t, rng, p, 32<<10))
		if broken.Load() == 0 {
			t.Errorf("seed %d: nothing broke", seed)
		}
		g.stop()
	}
}

// TestTCPPeerDies: an exchange with a host whose endpoint ends does not hang.
func TestTCPPeerDies(t *testing.T) {
	hosts := hostNames(2)
	die := make(chan struct{})
	g := newLoopbackGrid(t, hosts, true, func(_ *Config, edge *lane.Config) {
		dial := edge.DialTCP
		edge.DialTCP = func(ctx context.Context, a net.Addr, cc string) (net.Conn, error) {
			c, err := dial(ctx, a, cc)
			return &signalling{Conn: c, after: 1 << 20, signal: die}, err
		}
	})
	defer g.stop()
	go func() {
		<-die
		g.eps[hosts[1]].Close()
	}()
	p := ringPlan(2)
	p.Sizes = []int64{32 << 20, 0}
	j := newJob(t, rand.New(rand.NewPCG(1, 65)), p, 0)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGivenUp)
	defer cancel()
	began := time.Now()
	_, errs := g.run(ctx, j)
	if !errors.Is(errs[0], errGivenUp) {
		t.Errorf("sender to a host that is gone: %v, want %v", errs[0], errGivenUp)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("ended after %v", d)
	}
}

var errGivenUp = errors.New("given up")

// A signalling connection closes signal when it has written so many bytes, once.
type signalling struct {
	net.Conn
	after  int
	signal chan struct{}
}

func (c *signalling) Write(p []byte) (int, error) {
	if c.after > 0 {
		if c.after -= len(p); c.after <= 0 {
			close(c.signal)
		}
	}
	return c.Conn.Write(p)
}
