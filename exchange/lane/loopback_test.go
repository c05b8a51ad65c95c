package lane_test

import (
	"errors"
	"net"
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
