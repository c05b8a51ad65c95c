package lane

import (
	"bufio"
	"net"
	"net/netip"
	"testing"
)

// TestTunnelsRoom: who may have how many tunnels, and where.
func TestTunnelsRoom(t *testing.T) {
	ts := newTunnels(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7946})
	add := func(member, addr string) bool {
		here, there := net.Pipe()
		t.Cleanup(func() { there.Close() })
		tn := newTunnel(here, nil, member, netip.MustParseAddrPort(addr))
		ok := ts.add(tn, bufio.NewReader(here), func(*tunnel, error) {})
		if !ok {
			tn.close()
		}
		return ok
	}
	for i, c := range []struct {
		member, addr string
		want         bool
	}{
		{"b", "10.0.0.2:7946", true},
		{"b", "10.0.0.2:7946", true},
		{"c", "10.0.0.2:7946", false}, // b's
		{"", "10.0.0.2:7946", false},
		{"", "10.0.0.2:7947", true},
		{"c", "10.0.0.2:7947", true}, // a member may be where a stranger is
		{"", "10.0.0.2:7947", false},
	} {
		if got := add(c.member, c.addr); got != c.want {
			t.Errorf("%d: a tunnel of %q at %s: %v, want %v", i, c.member, c.addr, got, c.want)
		}
	}
	n := 2
	for port := 8000; add("b", netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), uint16(port)).String()); port++ {
		n++
	}
	if n != maxOfMember {
		t.Errorf("b has %d tunnels, want %d", n, maxOfMember)
	}
	n = 1
	for port := 9000; add("", netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), uint16(port)).String()); port++ {
		n++
	}
	if n != maxStrangersFrom {
		t.Errorf("%d strangers from one address, want %d", n, maxStrangersFrom)
	}
	if ts.instead(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 9000}) != nil {
		t.Error("a stranger's tunnel carries what is for a member")
	}
	ts.Close()
	if ts.some.Load() != 0 || len(ts.to) != 0 {
		t.Errorf("%d tunnels after the end", ts.some.Load())
	}
	if add("d", "10.0.0.3:7946") {
		t.Error("a tunnel after the end")
	}
}
