package lane_test

import (
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// withoutUDP runs f with two endpoints, a0 and b0, between which UDP is lost and TCP is not.
func withoutUDP(t *testing.T, f func(t *testing.T, c *cluster, n *memNet, a, b *node)) {
	t.Helper()
	overTCPCluster(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		c.block(t, true)
		f(t, c, n, a, b)
	})
}

// overTCPCluster is overTCP for who changes the network.
func overTCPCluster(t *testing.T, f func(t *testing.T, c *cluster, n *memNet, a, b *node)) {
	t.Helper()
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		a, b := startTCP(c, n, "a0", nil), startTCP(c, n, "b0", nil)
		f(t, c, n, a, b)
		a.stop()
		b.stop()
	})
}

// block has UDP between the sites lost, or no longer.
func (c *cluster) block(t testing.TB, lost bool) {
	t.Helper()
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		if err := c.net.CutLink(way[0], way[1], lost); err != nil {
			t.Fatal(err)
		}
	}
}

// heard collects datagrams of kind k that arrive at n, with where they came from.
func (n *node) heard(k lane.PacketKind) chan string {
	got := make(chan string, 100)
	n.HandlePackets(k, func(p []byte, from net.Addr, _ time.Time) { got <- string(p) + " from " + from.String() })
	return got
}

// TestTunnel: where UDP is lost lane 0 and datagrams go inside TCP, in both directions; further lanes are refused at once.
func TestTunnel(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		c.block(t, true)
		var atA, atB chan string
		a := startTCP(c, n, "a0", func(e *node) { atA = e.heard(lane.PacketGossip) })
		b := startTCP(c, n, "b0", func(e *node) { atB = e.heard(lane.PacketGossip) })
		start := time.Now()
		a.mustTalk(t, "b0", 0)
		if took := time.Since(start); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("lane 0 took %v", took)
		}
		b.mustTalk(t, "a0", 0)
		if n.made() != 1 {
			t.Errorf("%d TCP connections, want 1", n.made())
		}
		if !a.Tunnelled("b0") || !b.Tunnelled("a0") {
			t.Error("not said to be tunnelled")
		}
		a.SendPacket(lane.PacketGossip, []byte("hello"), b.Addr())
		b.SendPacket(lane.PacketGossip, []byte("and back"), a.Addr())
		time.Sleep(time.Second)
		for _, w := range []struct {
			got  chan string
			want string
		}{{atB, "hello from " + a.Addr().String()}, {atA, "and back from " + b.Addr().String()}} {
			if len(w.got) != 1 {
				t.Errorf("%d datagrams, want 1", len(w.got))
			} else if s := <-w.got; s != w.want {
				t.Errorf("datagram %q, want %q", s, w.want)
			}
		}
		start = time.Now()
		if err := a.talk("b0", 1); !errors.Is(err, lane.ErrUDPBlocked) || time.Since(start) > time.Second {
			t.Errorf("lane 1: %v after %v", err, time.Since(start))
		}
		a.stop()
		time.Sleep(time.Second)
		b.wantLinks(t, 0) // it was told
		if b.Tunnelled("a0") || b.Tunnels() != 0 {
			t.Errorf("%d tunnels to a host that has ended", b.Tunnels())
		}
		b.stop()
	})
}

// TestTunnelNotNeeded: nobody connects over TCP where UDP is answered, nor, for long, where the host is gone.
func TestTunnelNotNeeded(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		a.mustTalk(t, "b0", 0)
		time.Sleep(10 * time.Second)
		if n.made() != 0 || a.Tunnelled("b0") {
			t.Errorf("%d connections", n.made())
		}
	})
}

// TestTunnelWayBack: when UDP gets through again new streams and datagrams go over it, and streams that are open in the tunnel go on there.
func TestTunnelWayBack(t *testing.T) {
	withoutUDP(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		a.mustTalk(t, "b0", 0)
		time.Sleep(2 * time.Minute)
		if !a.Tunnelled("b0") || !b.Tunnelled("a0") {
			t.Fatal("the tunnel is gone while UDP is lost")
		}
		old, err := a.Open(t.Context(), "b0", 0, echo)
		if err != nil {
			t.Fatal(err)
		}
		c.block(t, false)
		time.Sleep(40 * time.Second)
		if a.Tunnelled("b0") || b.Tunnelled("a0") {
			t.Fatal("still tunnelled 40 s after UDP came back")
		}
		if err := say(old); err != nil {
			t.Errorf("the stream in the tunnel: %v", err)
		}
		before := c.sent(t, "a", "b")
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		a.mustTalk(t, "b0", 1)
		if c.sent(t, "a", "b") < before+8 {
			t.Error("streams do not go over UDP")
		}
		// The connection in the tunnel is closed when both ends have no use for it, and then the tunnel.
		for range 10 {
			time.Sleep(time.Minute)
			a.CloseIdle("b0", 30*time.Second)
			b.CloseIdle("a0", 30*time.Second)
		}
		if a.Tunnels() != 0 || b.Tunnels() != 0 {
			t.Errorf("%d and %d tunnels that nobody uses", a.Tunnels(), b.Tunnels())
		}
		// And when UDP is lost again there is a tunnel again.
		c.block(t, true)
		a.CloseLanes("b0", 1)
		time.Sleep(3 * time.Minute)
		b.mustTalk(t, "a0", 0)
		if !b.Tunnelled("a0") {
			t.Error("no tunnel")
		}
	})
}

// TestTunnelAgain: where UDP is lost again while the tunnel of the last time is still there, whoever doubts it has another one made.
func TestTunnelAgain(t *testing.T) {
	withoutUDP(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		a.mustTalk(t, "b0", 0)
		c.block(t, false)
		time.Sleep(40 * time.Second)
		if a.Tunnelled("b0") || b.Tunnelled("a0") || a.Tunnels() != 1 || b.Tunnels() != 1 {
			t.Fatalf("want one tunnel that is out of use, have %d and %d", a.Tunnels(), b.Tunnels())
		}
		c.block(t, true)
		a.Doubt(b.Addr().(*net.UDPAddr))
		time.Sleep(3 * time.Second)
		if !a.Tunnelled("b0") || !b.Tunnelled("a0") {
			t.Error("no tunnel carries what is for the other host")
		}
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		c.block(t, false)
		time.Sleep(40 * time.Second)
		if a.Tunnelled("b0") || b.Tunnelled("a0") {
			t.Error("still tunnelled 40 s after UDP came back")
		}
	})
}

// sent is how many packets have entered the link from one site to another.
func (c *cluster) sent(t testing.TB, from, to string) uint64 {
	t.Helper()
	st := c.net.Stats()
	l, ok := st.Link(from, to)
	if !ok {
		t.Fatalf("no link %s → %s", from, to)
	}
	return l.Delivered.Packets
}

// TestTunnelBreaks: connections in a tunnel that ends end with it, and the next stream has a new one.
func TestTunnelBreaks(t *testing.T) {
	withoutUDP(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		a.mustTalk(t, "b0", 0)
		s, err := a.Open(t.Context(), "b0", 0, held)
		if err != nil {
			t.Fatal(err)
		}
		n.last(t).Close()
		time.Sleep(100 * time.Millisecond)
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("a stream of a tunnel that has ended reads on")
		}
		a.wantLinks(t, 0)
		b.wantLinks(t, 0)
		b.mustTalk(t, "a0", 0)
		a.mustTalk(t, "b0", 0)
		if n.made() != 2 {
			t.Errorf("%d connections, want 2", n.made())
		}
	})
}

// TestTunnelBothWays: two hosts that dial each other at the same moment keep talking.
func TestTunnelBothWays(t *testing.T) {
	withoutUDP(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		done := make(chan error, 2)
		go func() { done <- a.talk("b0", 0) }()
		go func() { done <- b.talk("a0", 0) }()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		if n.made() > 2 {
			t.Errorf("%d connections", n.made())
		}
	})
}

// TestTunnelStrangers: a host without a certificate can join, and no more than that; one of another cluster is refused.
func TestTunnelStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		c.block(t, true)
		var gossip chan string
		b := startTCP(c, n, "b0", func(e *node) { e.answerJoins(); gossip = e.heard(lane.PacketGossip) })
		conn := c.listen("a0")
		defer conn.Close()
		tr := &quic.Transport{Conn: conn}
		defer tr.Close()
		here := conn.LocalAddr().(*net.UDPAddr)
		s, closeConn, err := lane.Join(t.Context(), tr, b.Addr(), trusting(), n.from(here.IP))
		if err != nil {
			t.Fatal(err)
		}
		if err := say(s); err != nil {
			t.Error(err)
		}
		b.SendPacket(lane.PacketGossip, []byte("for members"), here) // goes over UDP, and is lost
		closeConn()
		time.Sleep(time.Second)
		if b.Tunnels() != 0 {
			t.Error("the tunnel stays")
		}
		seen := errors.New("not this one")
		untrusting := lane.JoinTLS(func([]*x509.Certificate) error { return seen })
		if _, _, err := lane.Join(t.Context(), tr, b.Addr(), untrusting, n.from(here.IP)); err == nil {
			t.Error("joined by way of a seed that is not trusted")
		}
		x := c.stranger("a1", n.join)
		if _, err := x.Open(t.Context(), "b0", 0, echo); err == nil {
			t.Error("another cluster's host has a lane")
		}
		if r := <-b.refused; r.err == nil {
			t.Error("refused without a reason")
		}
		if len(gossip) > 0 {
			t.Errorf("a stranger's datagram: %q", <-gossip)
		}
		x.stop()
		b.stop()
	})
}

// TestDoubt: a host of which UDP is lost later is reached in a tunnel as soon as somebody doubts it; a host that answers is not.
func TestDoubt(t *testing.T) {
	overTCPCluster(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		a.mustTalk(t, "b0", 0)
		at := b.Addr().(*net.UDPAddr)
		a.Doubt(at)
		time.Sleep(time.Minute)
		if n.made() != 0 {
			t.Error("a tunnel to a host that answers")
		}
		c.block(t, true)
		time.Sleep(time.Second)
		start := time.Now()
		for range 3 {
			a.Doubt(at)
		}
		time.Sleep(3 * time.Second)
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		if took := time.Since(start); took > 4*time.Second || n.made() != 1 {
			t.Errorf("%v and %d connections until streams are answered", took, n.made())
		}
	})
}

// TestTunnelTranslated: a host that dials from another address than it is reached at gets datagrams and streams in the tunnel that it has dialed.
func TestTunnelTranslated(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		c.block(t, true)
		var atA chan string
		from := n.from(net.IPv4(10, 9, 9, 9))
		a := startTCP(c, n, "a0", func(e *node) { atA = e.heard(lane.PacketGossip) }, func(cfg *lane.Config) { cfg.DialTCP = from })
		b := startTCP(c, n, "b0", nil)
		a.mustTalk(t, "b0", 0)
		if !b.Tunnelled("a0") {
			t.Error("b does not know that a is in a tunnel")
		}
		b.SendPacket(lane.PacketGossip, []byte("hello"), a.Addr())
		b.mustTalk(t, "a0", 0)
		time.Sleep(time.Second)
		if len(atA) != 1 || n.made() != 1 {
			t.Errorf("%d datagrams, %d connections, want one of each", len(atA), n.made())
		}
		a.stop()
		b.stop()
	})
}

// TestTunnelStuckAtEnd: an end is not held up by a tunnel whose other end takes nothing any more.
func TestTunnelStuckAtEnd(t *testing.T) {
	withoutUDP(t, func(t *testing.T, c *cluster, n *memNet, a, b *node) {
		a.mustTalk(t, "b0", 0)
		n.last(t).vanish()
		for range 100 { // more than the connection's buffer holds
			a.SendPacket(lane.PacketGossip, make([]byte, lane.MaxPacket), b.Addr())
			time.Sleep(time.Millisecond)
		}
		start := time.Now()
		a.stop()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// TestNobodyThere: who joins by way of a host that is silent over UDP and refuses TCP is told of the silence.
func TestNobodyThere(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		conn, gone := c.listen("a0"), c.listen("b0")
		defer conn.Close()
		gone.Close()
		tr := &quic.Transport{Conn: conn}
		defer tr.Close()
		_, _, err := lane.Join(t.Context(), tr, gone.LocalAddr(), trusting(), new(memNet).from(conn.LocalAddr().(*net.UDPAddr).IP))
		var silence net.Error
		if !errors.As(err, &silence) || !silence.Timeout() {
			t.Errorf("%v: want a timeout first", err)
		}
	})
}
