package identity

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A wire joins sockets in memory with 10 ms of delay each way. What is sent to an
// address without a socket is lost, as on a network.
type wire struct {
	mu  sync.Mutex // guards the map
	to  map[string]simnet.PacketReceiver
	one time.Duration
}

func newWire() *wire {
	return &wire{to: make(map[string]simnet.PacketReceiver), one: 10 * time.Millisecond}
}

func (w *wire) AddNode(a net.Addr, r simnet.PacketReceiver) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to[a.String()] = r
}

func (w *wire) SendPacket(p simnet.Packet) error {
	w.mu.Lock()
	r := w.to[p.To.String()]
	w.mu.Unlock()
	if r != nil {
		time.AfterFunc(w.one, func() { r.RecvPacket(p) })
	}
	return nil
}

func udp(s string) *net.UDPAddr {
	a, err := net.ResolveUDPAddr("udp", s)
	if err != nil {
		panic(err)
	}
	return a
}

func (w *wire) socket(addr string) net.PacketConn { return simnet.NewSimConn(udp(addr), w) }

// serve runs an endpoint of id on conn with sv answering joins, until the test ends.
// In a bubble stop must be called before it ends.
func serve(t *testing.T, conn net.PacketConn, id *Identity, sv *Server) (stop func()) {
	t.Helper()
	ep, err := lane.New(lane.Config{Conn: conn, Credentials: id.Credentials()})
	if err != nil {
		t.Fatal(err)
	}
	ep.HandleStreams(lane.StreamJoin, sv.Handle)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := ep.Run(ctx); err != nil {
			t.Errorf("endpoint: %v", err)
		}
	}()
	return func() { cancel(); <-done }
}
