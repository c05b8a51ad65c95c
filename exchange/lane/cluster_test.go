package lane_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// Kinds of streams in these tests, named for what their handlers do.
const (
	echo = lane.StreamMap   // answers what it has read to the end
	sink = lane.StreamData  // reads to the end
	held = lane.StreamGroup // does nothing until its connection ends
)

// oneWay is the delay from site a to site b, and back.
const oneWay = 10 * time.Millisecond

// A cluster is a set of endpoints under one authority on one network.
type cluster struct {
	t   testing.TB
	net *gridnet.Network // nil over real sockets
	ca  *authority

	mu    sync.Mutex // guards addrs
	addrs map[string]net.Addr
}

func newCluster(t testing.TB, n *gridnet.Network) *cluster {
	t.Helper()
	return &cluster{t: t, net: n, ca: newAuthority(t), addrs: make(map[string]net.Addr)}
}

// inBubble runs f over sites a and b of 3 hosts each (a0 … b2), 10 ms apart, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	cfg := gridtest.Pair(gridnet.Link{Rate: 100 * gridnet.Mbps, Latency: oneWay})
	for i := range cfg.Sites {
		cfg.Sites[i].Hosts = gridtest.Hosts(cfg.Sites[i].Name, 3)
	}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) { f(t, newCluster(t, n)) })
}

func (c *cluster) credentials(name string) lane.Credentials {
	c.t.Helper()
	return c.ca.credentials(c.t, name)
}

// setAddr is what gossip would do: from now on everybody resolves name to a.
func (c *cluster) setAddr(name string, a net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs[name] = a
}

func (c *cluster) resolve(name string) (net.Addr, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.addrs[name]
	return a, ok
}

// A refusal is one call of Config.Refused.
type refusal struct {
	from net.Addr
	err  error
}

// A node is a running endpoint.
type node struct {
	*lane.Endpoint
	refused chan refusal
	cancel  context.CancelFunc
	done    chan struct{}
}

// stop ends the endpoint in good order.
func (n *node) stop() { n.cancel(); <-n.done }

func (c *cluster) listen(host string) net.PacketConn {
	c.t.Helper()
	return gridtest.Listen(c.t, c.net, host)
}

// start runs an endpoint called host on the emulated machine of that name.
func (c *cluster) start(host string, edit ...func(*lane.Config)) *node {
	c.t.Helper()
	return c.startOn(c.listen(host), host, edit...)
}

func (c *cluster) startOn(conn net.PacketConn, host string, edit ...func(*lane.Config)) *node {
	c.t.Helper()
	return c.prepare(conn, host, edit...).run(c.t)
}

// prepare makes an endpoint that does not run yet, so that the test can add handlers.
func (c *cluster) prepare(conn net.PacketConn, host string, edit ...func(*lane.Config)) *node {
	c.t.Helper()
	n := &node{refused: make(chan refusal, 100), done: make(chan struct{})}
	cfg := lane.Config{
		Conn: conn, Credentials: c.credentials(host), Resolve: c.resolve,
		StatelessReset: [32]byte{1: 1, 2: host[0], 3: host[1]},
		Refused:        func(from net.Addr, err error) { n.refused <- refusal{from, err} },
	}
	for _, f := range edit {
		f(&cfg)
	}
	var err error
	if n.Endpoint, err = lane.New(cfg); err != nil {
		c.t.Fatal(err)
	}
	n.HandleStreams(echo, func(_ context.Context, s *lane.Stream) {
		b, err := io.ReadAll(io.LimitReader(s, 1<<20))
		if err != nil {
			s.Abort()
			return
		}
		s.Write(b)
		s.Close()
	})
	n.HandleStreams(sink, func(_ context.Context, s *lane.Stream) {
		io.Copy(io.Discard, s)
		s.Abort()
	})
	n.HandleStreams(held, func(ctx context.Context, s *lane.Stream) {
		<-ctx.Done()
		s.Abort()
	})
	c.setAddr(host, n.Addr())
	return n
}

// run starts a prepared endpoint. It is stopped by stop.
func (n *node) run(t testing.TB) *node {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		defer close(n.done)
		if err := n.Run(ctx); err != nil {
			t.Errorf("%v: %v", n.Addr(), err)
		}
	}()
	return n
}

// kill cuts the power of the node's host.
func (c *cluster) kill(n *node, host string) {
	c.t.Helper()
	if err := c.net.Kill(host); err != nil {
		c.t.Fatal(err)
	}
	n.stop()
}

// say sends a message over s, which is of kind echo, and checks what comes back.
func say(s *lane.Stream) error {
	defer s.Abort()
	s.SetDeadline(time.Now().Add(30 * time.Second))
	want := []byte("a message that is long enough to be worth a stateless reset")
	if _, err := s.Write(want); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	got, err := io.ReadAll(s)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("sent %q, got back %q", want, got)
	}
	return nil
}

// talk opens an echo stream from n to a member, and uses it.
func (n *node) talk(to string, l int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := n.Open(ctx, to, l, echo)
	if err != nil {
		return err
	}
	if s.Peer.Name != to {
		return fmt.Errorf("stream to %q is to %q", to, s.Peer.Name)
	}
	return say(s)
}

func (n *node) mustTalk(t testing.TB, to string, l int) {
	t.Helper()
	if err := n.talk(to, l); err != nil {
		t.Errorf("to %s, lane %d: %v", to, l, err)
	}
}

// wantLinks checks the number of a node's connections.
func (n *node) wantLinks(t testing.TB, want int) {
	t.Helper()
	if got := n.Links(); got != want {
		t.Errorf("%d connections, want %d", got, want)
	}
}
