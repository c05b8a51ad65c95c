package agent

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
)

// A firewall loses UDP between loopback addresses that differ, while it is on.
type firewall struct{ on atomic.Bool }

// A guarded is a socket behind a firewall.
type guarded struct {
	net.PacketConn // not the kernel's socket as such, or packets would leave by its other methods
	wall           *firewall
}

func (g *guarded) WriteTo(p []byte, to net.Addr) (int, error) {
	if g.wall.on.Load() && !to.(*net.UDPAddr).IP.Equal(g.LocalAddr().(*net.UDPAddr).IP) {
		return len(p), nil
	}
	return g.PacketConn.WriteTo(p, to)
}

func (g *guarded) SetReadBuffer(n int) error  { return g.PacketConn.(*net.UDPConn).SetReadBuffer(n) }
func (g *guarded) SetWriteBuffer(n int) error { return g.PacketConn.(*net.UDPConn).SetWriteBuffer(n) }

// open is a socket at bind behind the firewall.
func (w *firewall) open(t *testing.T, bind string) net.PacketConn {
	t.Helper()
	conn, err := openSocket(bind)
	if err != nil {
		t.Fatal(err)
	}
	return &guarded{conn, w}
}

// behind is an edit of Options for a host at ip.
func (w *firewall) behind(t *testing.T, ip string) func(*Options) {
	return func(o *Options) {
		o.Identity.Settings.Bind = ip + ":0"
		o.Conn = w.open(t, ip+":0")
		o.OpenSocket = func() (net.PacketConn, error) { return w.open(t, ip+":0"), nil }
		var err error
		if o.Listener, err = o.openListener(o.Conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
}

// exchanged runs an allgather with a rank at each host and checks what they get.
func exchanged(t *testing.T, job string, hosts ...*testHost) error {
	t.Helper()
	blocks := randomBlocks(7, 100_000, 200_000, 1)
	want := strings.Builder{}
	for _, b := range blocks {
		want.Write(b)
	}
	for r, g := range gather(t, job, hosts, blocks, client.Options{}) {
		if g.err != nil {
			return fmt.Errorf("rank %d: %w", r, g.err)
		}
		if string(g.data) != want.String() {
			return fmt.Errorf("rank %d got other data", r)
		}
	}
	return nil
}

// laneTo is what h says of its lanes to host.
func (h *testHost) laneTo(t *testing.T, host string) *apiv1.LaneStatus {
	t.Helper()
	r, err := h.client(t).API().Status(t.Context(), connect.NewRequest(&apiv1.StatusRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Msg.Lanes {
		if l.Host == host {
			return l
		}
	}
	t.Fatalf("%s says nothing of lanes to %s", h.Name(), host)
	return nil
}

// TestWithoutUDP: two sites between which UDP is lost are one grid over TCP. A host joins, groups form, exchanges run.
func TestWithoutUDP(t *testing.T) {
	t.Parallel()
	wall := new(firewall)
	wall.on.Store(true)
	first := newCluster(t, "a")
	a := startHost(t, first, wall.behind(t, "127.0.0.1"))

	token, err := a.client(t).API().TokenCreate(t.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{TtlSeconds: 60, Uses: 1}))
	if err != nil {
		t.Fatal(err)
	}
	b := wall.behind(t, "127.0.0.2")
	conn := wall.open(t, "127.0.0.2:0")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	id, _, err := identity.Request(ctx, conn, []net.Addr{a.Addr()}, token.Msg.Token, filepath.Join(t.TempDir(), "b"),
		identity.Options{Host: "b", Site: "Y", DialTCP: lane.DialTCP(conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr())})
	if err != nil {
		t.Fatal(err)
	}
	if got := id.Settings.Advertise; got != conn.LocalAddr().String() {
		t.Errorf("the seed has seen %s, want %v", got, conn.LocalAddr())
	}
	conn.Close()
	id.Settings.Advertise = "" // that of the socket above
	hb := startHost(t, id, b, a)
	hc := startHost(t, admit(t, first, "c"), wall.behind(t, "127.0.0.2"), a)
	waitMembers(t, a, hb, hc)
	if err := exchanged(t, "job", a, hb, hc); err != nil {
		t.Fatal(err)
	}
	if l := a.laneTo(t, "b"); l.Kind != LaneTCP || l.TcpSentBytes == 0 {
		t.Errorf("lanes to b: %v", l)
	}
	time.Sleep(12 * time.Second) // lost hosts are found within 10 s
	if !strings.Contains(a.log.String(), "UDP is not answered") && !strings.Contains(hb.log.String(), "UDP is not answered") {
		t.Error("the operator is not told")
	}
	for _, h := range []*testHost{a, hb, hc} {
		if n := h.Alive(); n != 3 {
			t.Errorf("%s sees %d of 3", h.Name(), n)
		}
	}
}

// TestUDPBlockedLater: a firewall that begins to lose UDP while the grid runs splits it for a while only.
func TestUDPBlockedLater(t *testing.T) {
	t.Parallel()
	wall := new(firewall)
	first := newCluster(t, "a")
	a := startHost(t, first, wall.behind(t, "127.0.0.1"))
	b := startHost(t, admit(t, first, "b"), wall.behind(t, "127.0.0.2"), a)
	c := startHost(t, admit(t, first, "c"), wall.behind(t, "127.0.0.2"), a)
	waitMembers(t, a, b, c)
	if err := exchanged(t, "before", a, b, c); err != nil {
		t.Fatal(err)
	}
	wall.on.Store(true)
	start := time.Now()
	eventually(t, 40*time.Second, "an exchange without UDP", func() error { return exchanged(t, fmt.Sprint("job", time.Since(start)), a, b, c) })
	t.Logf("first exchange %v after UDP was lost", time.Since(start))
	waitMembers(t, a, b, c)
}
