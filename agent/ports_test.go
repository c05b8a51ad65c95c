package agent

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gridagent/gridagent/agent/identity"
)

// An advertised port 0 is that of the socket.
func TestAdvertised(t *testing.T) {
	for _, tt := range []struct{ socket, set, want string }{
		{"10.0.0.1:4711", "", "10.0.0.1:4711"},
		{"10.0.0.1:4711", "192.0.2.1:7946", "192.0.2.1:7946"},
		{"10.0.0.1:4711", "192.0.2.1:0", "192.0.2.1:4711"},
		{"0.0.0.0:4711", "192.0.2.1:0", "192.0.2.1:4711"},
		{"[::]:4711", "192.0.2.1:0", "192.0.2.1:4711"},
	} {
		o := Options{Identity: &identity.Identity{Settings: identity.Settings{Advertise: tt.set}}}
		got, err := o.advertised(net.UDPAddrFromAddrPort(netip.MustParseAddrPort(tt.socket)))
		if err != nil || got.String() != tt.want {
			t.Errorf("socket %s, settings %q: advertise %v (%v), want %s", tt.socket, tt.set, got, err, tt.want)
		}
	}
}

// Where the kernel chooses the port, TCP's is the same; where it is said, an agent may be without.
func TestPortsOfTheKernelsChoice(t *testing.T) {
	open := func(bind string) *Agent {
		a := &Agent{opts: Options{Identity: &identity.Identity{Settings: identity.Settings{Bind: bind}}}}
		if err := a.openPorts(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.closePorts)
		return a
	}
	for range 50 {
		a := open("127.0.0.1:0")
		if a.listener == nil {
			t.Fatalf("no TCP beside %v", a.socket.LocalAddr())
		}
		if u, l := a.socket.LocalAddr().(*net.UDPAddr), a.listener.Addr().(*net.TCPAddr); u.Port != l.Port {
			t.Fatalf("UDP %v, TCP %v", u, l)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if a := open(taken.Addr().String()); a.listener != nil {
		t.Errorf("TCP at %v, which was taken", a.listener.Addr())
	}
}
