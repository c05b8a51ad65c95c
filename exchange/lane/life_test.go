package lane_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// open opens a stream, or ends the test.
func (n *node) open(t testing.TB, to string, k lane.StreamKind) *lane.Stream {
	t.Helper()
	s, err := n.Open(t.Context(), to, 0, k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits until ok, and returns how long that took.
func await(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > time.Minute {
			t.Fatalf("waited a minute for %s", what)
		}
		time.Sleep(oneWay / 10)
	}
	return time.Since(began)
}

// A killed peer is noticed within KeepAlive + IdleTimeout by who reads, who serves
// and who asks for statistics, and not before IdleTimeout: an outage is no death.
func TestKilledPeerIsNoticed(t *testing.T) {
	for _, idle := range []time.Duration{0, 5 * time.Second, 12 * time.Second} {
		inBubble(t, func(t *testing.T, c *cluster) {
			a, b := c.start("a0", func(cfg *lane.Config) { cfg.IdleTimeout = idle }), c.start("b0", func(cfg *lane.Config) { cfg.IdleTimeout = idle })
			if idle == 0 {
				idle = 6 * time.Second
			}
			s := a.open(t, "b0", held)
			time.Sleep(4 * oneWay)  // b knows that connection now
			b.open(t, "a0", held)   // its handler at a waits for its context
			time.Sleep(time.Minute) // an idle connection lives
			a.wantLinks(t, 1)
			began := time.Now()
			c.kill(b, "b0")
			_, err := s.Read(make([]byte, 1))
			d := time.Since(began)
			var timeout *quic.IdleTimeoutError
			if !errors.As(err, &timeout) {
				t.Errorf("read from a killed peer: %v", err)
			}
			if d < idle-idle/3 || d > idle+idle/3+time.Second {
				t.Errorf("noticed after %v, with an idle timeout of %v", d, idle)
			}
			time.Sleep(time.Second)
			a.wantLinks(t, 0)
			if _, ok := a.Stats("b0"); ok {
				t.Error("statistics of a lost peer")
			}
			a.stop() // returns only if the handler has
		})
	}
}

// A short cut of the link breaks nothing.
func TestOutageIsSurvived(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		s := a.open(t, "b0", echo)
		if err := c.net.Cut("a", "b"); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*time.Second, func() { c.net.Heal("a", "b") })
		if err := say(s); err != nil {
			t.Error(err)
		}
		a.wantLinks(t, 1)
		a.stop()
		b.stop()
	})
}

// A restarted peer is reachable at once, whoever calls first, although the old
// connection was not seen to end.
func TestRestartedPeerCalls(t *testing.T) {
	for _, reset := range []bool{true, false} {
		inBubble(t, func(t *testing.T, c *cluster) {
			edit := func(cfg *lane.Config) {
				if !reset {
					cfg.StatelessReset = [32]byte{}
				}
			}
			a, b := c.start("a0", edit), c.start("b0", edit)
			a.mustTalk(t, "b0", 0)
			c.kill(b, "b0")
			b = c.start("b0", edit)
			began := time.Now()
			b.mustTalk(t, "a0", 0)
			a.mustTalk(t, "b0", 0)
			s, err := a.OpenAddr(t.Context(), b.Addr(), echo)
			if err != nil {
				t.Fatal(err)
			}
			if err := say(s); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 20*oneWay {
				t.Errorf("reached after %v", d)
			}
			time.Sleep(20 * time.Second)
			a.wantLinks(t, 1) // the old one is gone by now
			a.stop()
			b.stop()
		})
	}
}

func TestRestartedPeerIsCalled(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		a.mustTalk(t, "b0", 0)
		a.mustTalk(t, "b0", 1)
		c.kill(b, "b0")
		b = c.start("b0")
		for l := range 2 {
			began := time.Now()
			var reset *quic.StatelessResetError
			if err := a.talk("b0", l); !errors.As(err, &reset) {
				t.Errorf("lane %d, first call after a restart: %v, want a stateless reset", l, err)
			}
			a.mustTalk(t, "b0", l)
			if d := time.Since(began); d > 20*oneWay {
				t.Errorf("lane %d, reached after %v", l, d)
			}
		}
		a.wantLinks(t, 2)
		a.stop()
		b.stop()
	})
}

// Another member at the address of one that has died: whoever has called from there
// last is who is there.
func TestAddressIsReused(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		at := b.Addr()
		a.mustTalk(t, "b0", 0)
		c.kill(b, "b0")
		next := c.startOn(c.listen("b0"), "b1")
		if next.Addr().String() != at.String() {
			t.Fatalf("b1 is at %v, not at %v", next.Addr(), at)
		}
		next.mustTalk(t, "a0", 0)
		a.wantLinks(t, 2) // b0's loss was not noticed yet
		s, err := a.OpenAddr(t.Context(), at, echo)
		if err != nil {
			t.Fatal(err)
		}
		if s.Peer.Name != "b1" {
			t.Errorf("at %v is b1, the stream is to %s", at, s.Peer.Name)
		}
		if err := say(s); err != nil {
			t.Error(err)
		}
		a.mustTalk(t, "b1", 0)

		// The same without a call from there, once the loss is noticed.
		next.stop()
		await(t, "the loss of b0", func() bool { return a.Links() == 0 })
		last := c.startOn(c.listen("b0"), "b2")
		if s, err = a.OpenAddr(t.Context(), at, echo); err != nil {
			t.Fatal(err)
		}
		if s.Peer.Name != "b2" {
			t.Errorf("at %v is b2, the stream is to %s", at, s.Peer.Name)
		}
		s.Abort()
		a.stop()
		last.stop()
	})
}

// The peers of an endpoint that ends are told, so that they need not wait for a timeout.
func TestShutdownTellsPeers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		s := a.open(t, "b0", held)
		time.Sleep(time.Second)
		began := time.Now()
		go b.cancel()
		_, err := s.Read(make([]byte, 1))
		var closed *quic.ApplicationError
		if !errors.As(err, &closed) || !closed.Remote || closed.ErrorCode != 0 {
			t.Errorf("read: %v, want the peer's goodbye", err)
		}
		if d := time.Since(began); d > 2*oneWay {
			t.Errorf("told after %v", d)
		}
		b.stop()
		a.stop()
	})
}

// A connection whose handshake is completed while the endpoint shuts down is closed
// as well. The instants of the shutdown cover a whole handshake, of 4 times the delay.
func TestShutdownDuringHandshakes(t *testing.T) {
	for at := time.Duration(0); at < 6*oneWay; at += oneWay / 2 {
		inBubble(t, func(t *testing.T, c *cluster) {
			a, b := c.start("a0"), c.start("b0")
			time.AfterFunc(at, b.cancel)
			began := time.Now()
			s, err := a.Open(t.Context(), "b0", 0, held)
			if err == nil {
				_, err = s.Read(make([]byte, 1))
			}
			var netErr net.Error
			d := time.Since(began)
			if errors.As(err, &netErr) && netErr.Timeout() && at > oneWay {
				t.Errorf("shut down at %v: told nothing, noticed after %v: %v", at, d, err)
			}
			b.stop()
			a.stop()
		})
	}
}

// An endpoint that shuts down in the middle of its own dials fails its callers at once.
func TestShutdownFailsDials(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a0")
		c.setAddr("b0", &net.UDPAddr{IP: net.IPv4(10, 2, 0, 1), Port: 4000})
		time.AfterFunc(time.Second, a.cancel)
		began := time.Now()
		_, err := a.Open(t.Context(), "b0", 0, echo)
		if !errors.Is(err, net.ErrClosed) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		a.stop()
		if _, err := a.Open(t.Context(), "b0", 0, echo); !errors.Is(err, net.ErrClosed) {
			t.Errorf("open on a closed endpoint: %v", err)
		}
		if err := a.SendPacket(lane.PacketGossip, []byte("x"), a.Addr()); err == nil {
			t.Error("a closed endpoint sends packets")
		}
	})
}

func TestCloseWithoutRun(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b0")
		for _, used := range []bool{false, true} {
			conn := c.listen("a0")
			e, err := lane.New(lane.Config{Conn: conn, Credentials: c.credentials("a0"), Resolve: c.resolve})
			if err != nil {
				t.Fatal(err)
			}
			if used { // it may dial before it runs
				s, err := e.Open(t.Context(), "b0", 0, echo)
				if err != nil {
					t.Fatal(err)
				}
				if err := say(s); err != nil {
					t.Error(err)
				}
			}
			e.Close()
			if _, err := conn.WriteTo([]byte("x"), b.Addr()); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the socket of a closed endpoint is open: %v", err)
			}
			if err := e.Run(context.Background()); err != nil {
				t.Errorf("a closed endpoint's Run: %v", err)
			}
			e.Close()
		}
		b.stop()
	})
}

func TestRunOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a0")
		time.Sleep(time.Second)
		if err := a.Run(t.Context()); err == nil {
			t.Error("an endpoint runs twice")
		}
		a.Close()
		<-a.done
	})
}

// A brokenSocket makes a socket's reads fail when told to.
type brokenSocket struct {
	*gridnet.Conn
	broken atomic.Bool
	err    error
}

func (s *brokenSocket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.Conn.ReadFrom(b)
	if s.broken.Load() {
		return 0, nil, s.err
	}
	return n, from, err
}

// An agent whose socket has failed must not go on as if it were reachable.
func TestSocketFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b0")
		conn, err := c.net.Listen("a0")
		if err != nil {
			t.Fatal(err)
		}
		sock := &brokenSocket{Conn: conn, err: errors.New("interface is gone")}
		e, err := lane.New(lane.Config{Conn: sock, Credentials: c.credentials("a0"), Resolve: c.resolve})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- e.Run(context.Background()) }()
		time.Sleep(time.Second)
		sock.broken.Store(true)
		if err := b.SendPacket(lane.PacketGossip, []byte("x"), e.Addr()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, sock.err) {
			t.Errorf("Run: %v, want %v", err, sock.err)
		}
		b.stop()
	})
}

// Run waits for handlers, whose streams and contexts end with it.
func TestRunWaitsForHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		var after atomic.Bool
		b.HandleStreams('x', func(ctx context.Context, s *lane.Stream) {
			if _, err := io.ReadAll(s); err == nil {
				t.Error("a stream of a closed endpoint ended well")
			}
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			after.Store(true)
		})
		b.run(t)
		a.open(t, "b0", 'x')
		time.Sleep(time.Second)
		b.cancel()
		time.Sleep(time.Second)
		if _, err := b.Open(t.Context(), "a0", 0, echo); !errors.Is(err, net.ErrClosed) {
			t.Errorf("an endpoint that shuts down dials: %v", err)
		}
		b.stop()
		if !after.Load() {
			t.Error("Run has returned before a handler")
		}
		a.stop()
	})
}
