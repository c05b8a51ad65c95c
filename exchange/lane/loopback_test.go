package lane_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// TestLoopback is the basics over the kernel's sockets: GSO, ECN and path MTU
// discovery are at work there, and nowhere in virtual time.
func TestLoopback(t *testing.T) {
	c := newCluster(t, nil)
	listen := func() net.PacketConn {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	a, b := c.startOn(listen(), "a0"), c.prepare(listen(), "b0")
	got := b.catch()
	b.run(t)
	var talks sync.WaitGroup
	for l := range 4 {
		for range 4 {
			talks.Go(func() { a.mustTalk(t, "b0", l) })
		}
	}
	talks.Wait()
	a.wantLinks(t, 4)
	if s, err := b.OpenAddr(t.Context(), a.Addr(), echo); err != nil || s.Peer.Name != "a0" {
		t.Errorf("by address: %v", err)
	} else if err := say(s); err != nil {
		t.Error(err)
	}
	b.wantLinks(t, 4)
	bulk(t, a.open(t, "b0", sink), 8<<20)
	if err := a.SendPacket(lane.PacketProbe, []byte("probe"), b.Addr()); err != nil {
		t.Error(err)
	}
	select {
	case d := <-got:
		if string(d.data) != "probe" || d.from != a.Addr().String() {
			t.Errorf("got %q from %s", d.data, d.from)
		}
	case <-time.After(10 * time.Second):
		t.Error("the packet did not arrive")
	}
	a.stop()
	// Its address is free again, and its successor is reached.
	conn, err := net.ListenUDP("udp", a.Addr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	a = c.startOn(conn, "a0")
	// The goodbye of the one before may still be under way: the first call may meet it,
	// and ends at once.
	if err := b.talk("a0", 0); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("just after a restart: %v", err)
	}
	b.mustTalk(t, "a0", 0)
	a.stop()
	b.stop()
}

// TestTCPWriteLast: over the kernel's sockets a stream's end goes out with its last bytes, and whoever reads these knows of it; the connection carries the next one.
func TestTCPWriteLast(t *testing.T) {
	c := newCluster(t, nil)
	withTCP := func() (net.PacketConn, func(*lane.Config)) {
		l, err := lane.ListenTCP("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().(*net.TCPAddr)
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port})
		if err != nil {
			t.Fatal(err)
		}
		return conn, func(cfg *lane.Config) { cfg.Listener, cfg.DialTCP = l, lane.DialTCP(netip.Addr{}) }
	}
	conn, edit := withTCP()
	b := c.prepare(conn, "b0", edit)
	b.HandleTCPStreams(echo, func(_ context.Context, s *lane.TCPStream) {
		var all []byte
		buf := make([]byte, 1000)
		for {
			n, err := s.Read(buf)
			all = append(all, buf[:n]...)
			switch {
			case err == io.EOF:
				if err := s.WriteLast(all); err != nil {
					t.Error(err)
				}
				return
			case err != nil:
				t.Error(err)
				s.Abort()
				return
			case len(all) == 5 && !s.Within():
				t.Error("the end of a stream of five bytes was not there with these")
			}
		}
	})
	b.run(t)
	defer b.stop()
	conn, edit = withTCP()
	a := c.startOn(conn, "a0", edit)
	defer a.stop()
	for i, size := range []int{5, 0, 1, 16 << 10, 16<<10 + 500, 100_000, 5} {
		s := a.openTCP(t, "b0", echo)
		want := bytes.Repeat([]byte{byte(i + 1)}, size)
		if err := s.WriteLast(want); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: got %d back, %v", size, len(got), err)
		}
		if _, err := s.Write([]byte("x")); err == nil {
			t.Error("wrote behind the last")
		}
		if err := s.WriteLast(nil); err == nil {
			t.Error("wrote the last twice")
		}
	}
	if tr := a.TCPTraffic("b0"); tr.Conns > 4 {
		t.Errorf("%d connections for seven streams that followed each other", tr.Conns)
	}
}
