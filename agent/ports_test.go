package agent

import (
	"net"
	"testing"

	"github.com/gridagent/gridagent/agent/identity"
)

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
