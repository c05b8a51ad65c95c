package lane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// overTCP runs f with two endpoints, a0 and b0, that have TCP lanes in memory.
func overTCP(t *testing.T, f func(t *testing.T, n *memNet, a, b *node)) {
	t.Helper()
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		a, b := startTCP(c, n, "a0", nil), startTCP(c, n, "b0", nil)
		f(t, n, a, b)
		a.stop()
		b.stop()
	})
}

// startTCP starts an endpoint with the handlers of the QUIC tests for streams over TCP.
func startTCP(c *cluster, n *memNet, host string, change func(*node), edits ...func(*lane.Config)) *node {
	c.t.Helper()
	e := c.prepare(c.listen(host), host, append([]func(*lane.Config){n.join}, edits...)...)
	e.HandleTCPStreams(echo, func(_ context.Context, s *lane.TCPStream) {
		b, err := io.ReadAll(io.LimitReader(s, 1<<22))
		if err != nil {
			s.Abort()
			return
		}
		s.Write(b)
		s.Close()
	})
	e.HandleTCPStreams(sink, func(_ context.Context, s *lane.TCPStream) {
		io.Copy(io.Discard, s)
		s.Abort()
	})
	e.HandleTCPStreams(held, func(ctx context.Context, s *lane.TCPStream) {
		<-ctx.Done()
		s.Abort()
	})
	if change != nil {
		change(e)
	}
	return e.run(c.t)
}

func (n *node) openTCP(t testing.TB, to string, k lane.StreamKind) *lane.TCPStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := n.OpenTCP(ctx, to, "", k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sayTCP sends what over an echo stream and checks what comes back. The stream ends in order.
func sayTCP(s *lane.TCPStream, want []byte) error {
	sent := make(chan error, 1)
	go func() {
		_, err := s.Write(want)
		sent <- errors.Join(err, s.Close())
	}()
	got, err := io.ReadAll(s)
	if err = errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("sent %d bytes, got back %d others", len(want), len(got))
	}
	return nil
}

// TestTCPStreams: streams that end in order follow each other on one connection; those that are
// open at the same time have one each.
func TestTCPStreams(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		rng := rand.New(rand.NewPCG(1, 60))
		for i, size := range []int{0, 1, 2, 1019, 1020, 1021, 1024, 1025, 16384, 70001, 300000} {
			msg := make([]byte, size)
			for k := range msg {
				msg[k] = byte(rng.Uint32())
			}
			s := a.openTCP(t, "b0", echo)
			if s.Peer.Name != "b0" {
				t.Errorf("stream to %q", s.Peer.Name)
			}
			if err := sayTCP(s, msg); err != nil {
				t.Errorf("message %d of %d bytes: %v", i, size, err)
			}
			synctest.Wait()
			if n.made() != 1 {
				t.Fatalf("%d connections after %d streams, one after the other", n.made(), i+1)
			}
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := sayTCP(a.openTCP(t, "b0", echo), make([]byte, 100_000)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n.made() < 2 || n.made() > 5 {
			t.Errorf("%d connections for 5 streams at a time", n.made())
		}
		tr := a.TCPTraffic("b0")
		if want := uint64(16384 + 70001 + 300000 + 500_000); tr.Sent < want || tr.Sent > want+10_000 || tr.Received < want || tr.Conns != n.made() {
			t.Errorf("%+v over TCP, want about %d each way and %d connections", tr, want, n.made())
		}
		if bytes, packets := a.Received("b0"); bytes < 800_000 || packets < 600 {
			t.Errorf("received %d bytes, %d packets", bytes, packets)
		}
	})
}

// TestTCPWriteBoth cuts data at random into heads and bodies.
func TestTCPWriteBoth(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 61))
			s := a.openTCP(t, "b0", echo)
			var want []byte
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 1 + rng.IntN(30) {
					head, body := make([]byte, rng.IntN(40)), make([]byte, rng.IntN(1<<rng.IntN(18)))
					for i := range head {
						head[i] = byte(rng.Uint32())
					}
					want = append(append(want, head...), body...)
					if k, err := s.WriteBoth(head, body); err != nil || k != len(head)+len(body) {
						t.Errorf("seed %d: wrote %d of %d: %v", seed, k, len(head)+len(body), err)
					}
				}
				s.Close()
			}()
			got, err := io.ReadAll(s)
			if <-done; err != nil || !bytes.Equal(got, want) {
				t.Errorf("seed %d: %d bytes of %d, %v", seed, len(got), len(want), err)
			}
			synctest.Wait() // both ends have seen the end
		}
		if n.made() != 1 {
			t.Errorf("%d connections", n.made())
		}
	})
}

// TestTCPEnds goes through the ways in which a stream can end, and whether its connection lives on.
func TestTCPEnds(t *testing.T) {
	accepted := make(chan *lane.TCPStream, 1)
	for _, c := range []struct {
		name   string
		do     func(t *testing.T, here, there *lane.TCPStream)
		reused bool
	}{
		{"closed by both", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			there.Close()
			for _, s := range []*lane.TCPStream{here, there} {
				if _, err := s.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("read %v", err)
				}
			}
			if _, err := here.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write after Close: %v", err)
			}
		}, true},
		{"half closed for an hour", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			time.Sleep(time.Hour)
			there.Write([]byte("still here"))
			there.Close()
			there.CloseRead()
			if b, err := io.ReadAll(here); err != nil || string(b) != "still here" {
				t.Errorf("got %q, %v", b, err)
			}
		}, true},
		{"reader leaves while the peer sends little", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			here.CloseRead()
			if _, err := here.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("read after CloseRead: %v", err)
			}
			there.Write(make([]byte, 10_000))
			there.Close()
			io.Copy(io.Discard, there)
		}, true},
		{"abort after the peer's end", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			io.Copy(io.Discard, there)
			there.Abort()
			if _, err := here.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("read of what the peer has given up: %v", err)
			}
			there.SetReadDeadline(time.Unix(1, 0)) // must not reach the next stream
			there.SetWriteDeadline(time.Unix(1, 0))
			there.Abort()
		}, true},
		{"abort", func(t *testing.T, here, there *lane.TCPStream) {
			time.AfterFunc(time.Second, here.Abort)
			if _, err := there.Read(make([]byte, 1)); err == nil || err == io.EOF || !lane.Broken(err) {
				t.Errorf("read %v, want a broken connection", err)
			}
			if _, err := here.Write([]byte("x")); err == nil {
				t.Error("write after Abort")
			}
			there.Abort()
		}, false},
		{"abort frees a blocked write of the peer", func(t *testing.T, here, there *lane.TCPStream) {
			time.AfterFunc(time.Second, here.Abort)
			if _, err := there.Write(make([]byte, 10*memBuffer)); err == nil {
				t.Error("nobody has read it")
			}
			there.Abort()
		}, false},
		{"abort frees a blocked read here", func(t *testing.T, here, there *lane.TCPStream) {
			time.AfterFunc(time.Second, here.Abort)
			if _, err := here.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("read %v", err)
			}
			there.Abort()
		}, false},
		{"given up", func(t *testing.T, here, there *lane.TCPStream) {
			time.AfterFunc(time.Second, func() { here.GiveUp(false) })
			_, err := here.Read(make([]byte, 1))
			if err == nil || err == io.EOF || lane.Broken(err) || lane.Moved(err) {
				t.Errorf("read here: %v", err)
			}
			if _, err = there.Read(make([]byte, 1)); err == nil || err == io.EOF || lane.Broken(err) || lane.Moved(err) {
				t.Errorf("read of what was given up: %v", err)
			}
			if _, err := here.Write([]byte("x")); err == nil {
				t.Error("write after GiveUp")
			}
			here.Abort()
			there.Abort()
		}, true},
		{"moved", func(t *testing.T, here, there *lane.TCPStream) {
			here.Write([]byte("said"))
			here.GiveUp(true)
			b := make([]byte, 4)
			if _, err := io.ReadFull(there, b); err != nil || string(b) != "said" {
				t.Errorf("got %q, %v", b, err)
			}
			if _, err := there.Read(b); !lane.Moved(err) || lane.Broken(err) {
				t.Errorf("read %v, want that it has moved", err)
			}
			there.GiveUp(false)
		}, true},
		{"given up by the end that was called", func(t *testing.T, here, there *lane.TCPStream) {
			there.GiveUp(false)
			if _, err := here.Read(make([]byte, 1)); err == nil || err == io.EOF || lane.Broken(err) {
				t.Errorf("read %v", err)
			}
			here.GiveUp(false)
		}, true},
		{"given up after Close", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			here.GiveUp(true)
			if _, err := there.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("read %v", err)
			}
			there.Close()
			there.CloseRead()
		}, true},
		{"given up while a write blocks", func(t *testing.T, here, there *lane.TCPStream) {
			time.AfterFunc(time.Second, func() { here.GiveUp(false) })
			if _, err := here.Write(make([]byte, 10*memBuffer)); err == nil {
				t.Error("nobody has read it")
			}
			there.Abort()
		}, false},
		{"given up while the peer sends much", func(t *testing.T, here, there *lane.TCPStream) {
			time.AfterFunc(time.Second, func() { here.GiveUp(false) })
			if _, err := there.Write(make([]byte, 1<<20)); err == nil {
				t.Error("nobody has read it")
			}
			there.Abort()
		}, false},
		{"reader leaves while the peer sends much", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			here.CloseRead()
			if _, err := there.Write(make([]byte, 1<<20)); err == nil {
				t.Error("a reader that has left has read it all")
			}
			there.Abort()
		}, false},
		{"reader leaves and the peer goes on", func(t *testing.T, here, there *lane.TCPStream) {
			here.Close()
			here.CloseRead()
			time.Sleep(time.Minute)
			if _, err := there.Write([]byte("x")); err == nil {
				t.Error("the connection waits for the peer's end for ever")
			}
			there.Abort()
		}, false},
		{"reads go on after a deadline", func(t *testing.T, here, there *lane.TCPStream) {
			here.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := here.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %v", err)
			}
			here.SetReadDeadline(time.Time{})
			there.Write([]byte("late"))
			b := make([]byte, 4)
			if _, err := io.ReadFull(here, b); err != nil || string(b) != "late" {
				t.Errorf("got %q, %v", b, err)
			}
			here.Close()
			there.Close()
			here.CloseRead()
			there.CloseRead()
		}, true},
		{"writes do not go on after a deadline", func(t *testing.T, here, there *lane.TCPStream) {
			here.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := here.Write(make([]byte, 10*memBuffer)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write %v", err)
			}
			here.SetWriteDeadline(time.Time{})
			if _, err := here.Write([]byte("x")); err == nil {
				t.Error("went on in the middle of a record")
			}
			here.Abort()
			there.Abort()
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cl *cluster) {
				n := new(memNet)
				a := startTCP(cl, n, "a0", nil)
				b := startTCP(cl, n, "b0", func(b *node) {
					b.HandleTCPStreams(held, func(_ context.Context, s *lane.TCPStream) { accepted <- s })
				})
				here := a.openTCP(t, "b0", held)
				c.do(t, here, <-accepted)
				synctest.Wait()
				time.Sleep(10 * time.Second)
				if err := sayTCP(a.openTCP(t, "b0", echo), []byte("and again")); err != nil {
					t.Errorf("the next stream: %v", err)
				}
				if reused := n.made() == 1; reused != c.reused {
					t.Errorf("connection is used again: %v, want %v", reused, c.reused)
				}
				a.stop()
				b.stop()
			})
		})
	}
}

// TestTCPRest: connections without a stream are closed after a while, are few, and a peer that has
// gone does not leave any.
func TestTCPRest(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		var open []*lane.TCPStream
		for range 40 {
			open = append(open, a.openTCP(t, "b0", echo))
		}
		for _, s := range open {
			if err := sayTCP(s, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := a.TCPTraffic("b0").Conns; got == 0 || got > 16 {
			t.Errorf("%d connections rest, want at most 16", got)
		}
		time.Sleep(14 * time.Minute)
		if got := a.TCPTraffic("b0").Conns; got == 0 {
			t.Error("nothing is left after 14 minutes: who exchanges every ten begins anew")
		}
		time.Sleep(2 * time.Minute)
		if got := a.TCPTraffic("b0").Conns + b.TCPTraffic("a0").Conns; got != 0 {
			t.Errorf("%d ends after 16 minutes without a stream", got)
		}
		if tr := a.TCPTraffic("b0"); tr.Sent == 0 || tr.Received == 0 {
			t.Errorf("%+v: what ended connections have carried is forgotten", tr)
		}
		sayTCP(a.openTCP(t, "b0", echo), []byte("x"))
		synctest.Wait()
		b.stop()
		synctest.Wait()
		if got := a.TCPTraffic("b0").Conns; got != 0 {
			t.Errorf("%d connections to a host that has closed them", got)
		}
		if _, err := a.OpenTCP(t.Context(), "b0", "", echo); err == nil {
			t.Error("opened a stream to a host that is gone")
		}
	})
}

// TestTCPTakenAtTheLastMoment opens streams around the instant at which the connection is closed for idleness.
func TestTCPTakenAtTheLastMoment(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		for d := -3; d <= 3; d++ {
			if err := sayTCP(a.openTCP(t, "b0", echo), []byte("x")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(2*time.Minute + time.Duration(d)*time.Nanosecond)
			if err := sayTCP(a.openTCP(t, "b0", echo), []byte("y")); err != nil {
				t.Errorf("%d ns from the end: %v", d, err)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// TestTCPHalfOpen cuts the power of the peer: nobody is told, writes block until their deadline, and what
// rests is given up when it is used.
func TestTCPHalfOpen(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		s := a.openTCP(t, "b0", sink)
		n.last(t).vanish()
		s.SetWriteDeadline(time.Now().Add(20 * time.Second))
		began := time.Now()
		if _, err := s.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write to nobody: %v", err)
		}
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("write failed after %v", d)
		}
		s.Abort()
		synctest.Wait()
		if got := a.TCPTraffic("b0").Conns; got != 0 {
			t.Errorf("%d connections", got)
		}
		// A stream that ends in order but whose peer never answers.
		s = a.openTCP(t, "b0", held)
		n.last(t).vanish()
		s.Close()
		s.CloseRead()
		time.Sleep(6 * time.Second)
		if got := a.TCPTraffic("b0").Conns; got != 0 {
			t.Errorf("%d connections wait for the mark of a host that is gone", got)
		}
	})
}

// TestTCPSlowReader: what a sender can put on its way to a reader that does not read is bounded.
func TestTCPSlowReader(t *testing.T) {
	overTCP(t, func(t *testing.T, n *memNet, a, b *node) {
		s := a.openTCP(t, "b0", held)
		total := 0
		s.SetWriteDeadline(time.Now().Add(time.Minute))
		for {
			k, err := s.WriteBoth([]byte("head"), make([]byte, 8<<10))
			if total += k; err != nil {
				break
			}
		}
		if total > 3*memBuffer {
			t.Errorf("%d bytes are under way, the connection holds %d", total, memBuffer)
		}
		s.Abort()
	})
}

// TestTCPStrangers: who is not a member of the cluster, or not the one that was called, gets nothing.
func TestTCPStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		a := startTCP(c, n, "a0", nil)
		b := startTCP(c, n, "b0", nil)
		other := newCluster(t, c.net)
		x := startTCP(other, n, "a1", nil)
		other.setAddr("a0", a.Addr())
		other.setAddr("b0", b.Addr())
		c.setAddr("a1", x.Addr())
		c.setAddr("a2", b.Addr()) // what gossip says may be wrong
		ctx := t.Context()

		if _, err := x.OpenTCP(ctx, "a0", "", echo); !errors.Is(err, lane.ErrWrongCluster) {
			t.Errorf("a stranger dials: %v", err)
		}
		if r := <-a.refused; r.err == nil {
			t.Error("not told of the refusal")
		}
		if _, err := a.OpenTCP(ctx, "a1", "", echo); !errors.Is(err, lane.ErrWrongCluster) {
			t.Errorf("a stranger is dialed: %v", err)
		}
		<-x.refused
		var wrong *lane.IdentityError
		if _, err := a.OpenTCP(ctx, "a2", "", echo); !errors.As(err, &wrong) || wrong.Got != "b0" {
			t.Errorf("another host answers: %v", err)
		}
		c.setAddr("b0", a.Addr())
		if _, err := a.OpenTCP(ctx, "a0", "", echo); !errors.Is(err, lane.ErrSelf) {
			t.Errorf("oneself: %v", err)
		}
		if _, err := a.OpenTCP(ctx, "b0", "", echo); !errors.Is(err, lane.ErrSelf) {
			t.Errorf("one's own address: %v", err)
		}
		if _, err := a.OpenTCP(ctx, "nobody", "", echo); err == nil || !strings.Contains(err.Error(), "not a known member") {
			t.Errorf("nobody: %v", err)
		}
		// A kind that nobody handles.
		c.setAddr("b0", b.Addr())
		s := a.openTCP(t, "b0", lane.StreamGossip)
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("a stream of an unknown kind is served")
		}
		s.Abort()
		// No member of the other cluster is connected to one of this.
		if got := x.TCPTraffic("a0").Conns + a.TCPTraffic("a1").Conns; got != 0 {
			t.Errorf("%d connections across clusters", got)
		}
		for _, e := range []*node{a, b, x} {
			e.stop()
		}
	})
}

// TestTCPDoor: connections that say nothing are ended, and too many are turned away.
func TestTCPDoor(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := new(memNet)
		b := startTCP(c, n, "b0", nil)
		at := b.Addr().(*net.UDPAddr)
		var mute []net.Conn
		for range 1100 {
			conn, err := n.from(net.IPv4(10, 9, 9, 9))(t.Context(), &net.TCPAddr{IP: at.IP, Port: at.Port}, "")
			if err != nil {
				t.Fatal(err)
			}
			mute = append(mute, conn)
		}
		synctest.Wait()
		ended := func() (k int) {
			for _, conn := range mute {
				conn.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := conn.Read(make([]byte, 1)); err == io.EOF {
					k++
				}
			}
			return k
		}
		if got := ended(); got != 1100-1024 {
			t.Errorf("%d of 1100 mute connections were turned away, want 76", got)
		}
		time.Sleep(11 * time.Second)
		if got := ended(); got != 1100 {
			t.Errorf("%d of 1100 mute connections are ended after 11 s", got)
		}
		a := startTCP(c, n, "a0", nil)
		if err := sayTCP(a.openTCP(t, "b0", echo), []byte("hello")); err != nil {
			t.Errorf("a member after the crowd: %v", err)
		}
		a.stop()
		b.stop()
	})
}
