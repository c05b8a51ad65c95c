package lane_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

func TestOneConnectionServesBothEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		s, err := b.OpenAddr(t.Context(), a.Addr(), echo)
		if err != nil {
			t.Fatal(err)
		}
		if s.Peer.Name != "a0" || s.Peer.Addr.String() != a.Addr().String() || s.Local.String() != b.Addr().String() {
			t.Errorf("peer %v, local %v", s.Peer, s.Local)
		}
		if s.Stats().PacketsReceived == 0 {
			t.Error("no statistics of a stream's lane")
		}
		if err := say(s); err != nil {
			t.Error(err)
		}
		a.wantLinks(t, 1)
		b.wantLinks(t, 1)
		for _, n := range []*node{a, b} {
			if n.Waiting() != 0 {
				t.Errorf("%d handshakes in progress", n.Waiting())
			}
		}
		if st, ok := a.Stats("b0"); !ok || st.SmoothedRTT < 2*oneWay {
			t.Errorf("statistics of b0: %v, round trip %v", ok, st.SmoothedRTT)
		}
		if _, ok := a.Stats("nobody"); ok {
			t.Error("statistics of nobody")
		}
		a.stop()
		b.stop()
		a.wantLinks(t, 0)
	})
}

// Lanes are connections; the dialer's further lanes neither replace the acceptor's
// lane 0 nor become lanes of the acceptor.
func TestLanesAreConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		for l := range 3 {
			a.mustTalk(t, "b0", l)
			a.mustTalk(t, "b0", l)
		}
		a.wantLinks(t, 3)
		b.wantLinks(t, 3)
		before, _ := b.Stats("a0")
		b.mustTalk(t, "a0", 0)
		if after, _ := b.Stats("a0"); after.BytesSent <= before.BytesSent {
			t.Error("the acceptor's lane 0 is not the dialer's")
		}
		b.wantLinks(t, 3)
		b.mustTalk(t, "a0", 1) // its own
		a.wantLinks(t, 4)
		b.wantLinks(t, 4)
		a.stop()
		b.stop()
	})
}

func TestFurtherLanesWithoutTheFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		a.mustTalk(t, "b0", 1)
		if _, ok := b.Stats("a0"); ok {
			t.Error("an accepted lane 1 counts as lane 0")
		}
		b.mustTalk(t, "a0", 0) // dials: streams on lane 1 are the dialer's to open
		b.wantLinks(t, 2)
		a.stop()
		b.stop()
	})
}

func TestSimultaneousDials(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		for range 3 {
			var both sync.WaitGroup
			for range 4 {
				both.Go(func() { a.mustTalk(t, "b0", 0) })
				both.Go(func() { b.mustTalk(t, "a0", 0) })
			}
			both.Wait()
		}
		a.wantLinks(t, 2)
		b.wantLinks(t, 2)
		// No connection is closed for the other's sake.
		time.Sleep(time.Minute)
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		a.wantLinks(t, 2)
		b.wantLinks(t, 2)
		a.stop()
		b.stop()
	})
}

func TestCallersShareADial(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() { a.mustTalk(t, "b0", 0) })
			callers.Go(func() { a.mustTalk(t, "b0", 1) })
		}
		callers.Wait()
		b.wantLinks(t, 2)
		a.stop()
		b.stop()
	})
}

// A crowd at the door is asked to show that it receives at its address, and served.
func TestCrowd(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		most := 0
		watch := time.NewTicker(time.Millisecond)
		done := make(chan struct{})
		go func() {
			defer watch.Stop()
			for {
				select {
				case <-watch.C:
					most = max(most, b.Waiting())
				case <-done:
					done <- struct{}{}
					return
				}
			}
		}()
		var lanes sync.WaitGroup
		for l := range 120 {
			lanes.Go(func() { a.mustTalk(t, "b0", l) })
		}
		lanes.Wait()
		done <- struct{}{}
		<-done
		if most < 64 {
			t.Errorf("at most %d handshakes at once: no crowd", most)
		}
		b.wantLinks(t, 120)
		if b.Waiting() != 0 {
			t.Errorf("%d handshakes in progress", b.Waiting())
		}
		a.stop()
		b.stop()
	})
}

func TestCallersShareAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a0")
		c.setAddr("b0", &net.UDPAddr{IP: net.IPv4(10, 2, 0, 1), Port: 4000}) // nobody listens
		began := time.Now()
		patience := errors.New("patience")
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				s, err := a.Open(t.Context(), "b0", 0, echo)
				var timeout net.Error
				if s != nil || !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("dialed nobody: %v, %v", s, err)
				}
				if d := time.Since(began); d != 10*time.Second {
					t.Errorf("failed after %v, want 10s", d)
				}
			})
			callers.Go(func() { // one caller's impatience is its own
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, patience)
				defer cancel()
				if _, err := a.Open(ctx, "b0", 0, echo); !errors.Is(err, patience) {
					t.Errorf("impatient: %v", err)
				}
				if d := time.Since(began); d != time.Second {
					t.Errorf("gave up after %v, want 1s", d)
				}
			})
		}
		callers.Wait()
		// The failure is not remembered.
		b := c.start("b0")
		a.mustTalk(t, "b0", 0)
		a.stop()
		b.stop()
	})
}

// A member that has moved is dialed at its new address, although the dial to the old
// one goes on; and one that dials this host needs no dial any more.
func TestDialIsOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nowhere := &net.UDPAddr{IP: net.IPv4(10, 2, 0, 1), Port: 4000}
		a, b := c.start("a0"), c.start("b0")
		c.setAddr("b0", nowhere)
		var first sync.WaitGroup
		first.Go(func() {
			began := time.Now()
			a.mustTalk(t, "b0", 0)
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("the first caller waited %v", d)
			}
		})
		time.Sleep(time.Second)
		c.setAddr("b0", b.Addr())
		began := time.Now()
		a.mustTalk(t, "b0", 0)
		if d := time.Since(began); d > 6*oneWay {
			t.Errorf("at the new address: %v", d)
		}
		first.Wait()
		b.stop()

		b = c.start("b1")
		c.setAddr("b1", nowhere)
		first.Go(func() { a.mustTalk(t, "b1", 0) })
		time.Sleep(time.Second)
		b.mustTalk(t, "a0", 0)
		first.Wait()
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("waited %v for a dial that nobody needs", d)
		}
		b.stop()
		a.stop()
	})
}

func TestAnotherMemberAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		c.setAddr("b1", b.Addr())
		for l := range 2 {
			_, err := a.Open(t.Context(), "b1", l, echo)
			var wrong *lane.IdentityError
			if !errors.As(err, &wrong) || wrong.Want != "b1" || wrong.Got != "b0" {
				t.Errorf("lane %d: %v, want an IdentityError", l, err)
			}
			time.Sleep(time.Second)
			a.wantLinks(t, 1) // lane 0 stays: to b0. Lane 1 is of no use
			b.wantLinks(t, 1)
		}
		b.mustTalk(t, "a0", 0)
		a.mustTalk(t, "b0", 0)
		a.wantLinks(t, 1)
		if len(b.refused) > 0 {
			t.Errorf("a mistaken address is not a refused certificate: %v", <-b.refused)
		}
		a.stop()
		b.stop()
	})
}

func TestSelf(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a0")
		for _, open := range []func() (*lane.Stream, error){
			func() (*lane.Stream, error) { return a.Open(t.Context(), "a0", 0, echo) },
			func() (*lane.Stream, error) { return a.Open(t.Context(), "a0", 1, echo) },
			func() (*lane.Stream, error) { return a.OpenAddr(t.Context(), a.Addr(), echo) },
		} {
			if _, err := open(); !errors.Is(err, lane.ErrSelf) {
				t.Errorf("opened a stream to this host: %v", err)
			}
		}
		// A copy of this host's folder on another machine.
		twin := c.startOn(c.listen("b0"), "a0")
		if _, err := a.OpenAddr(t.Context(), twin.Addr(), echo); !errors.Is(err, lane.ErrSelf) {
			t.Errorf("opened a stream to a twin: %v", err)
		}
		time.Sleep(time.Second)
		a.wantLinks(t, 0)
		twin.wantLinks(t, 0)
		a.stop()
		twin.stop()
	})
}

func TestOpenRefusesNonsense(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a0")
		if _, err := a.Open(t.Context(), "", 0, echo); err == nil {
			t.Error("opened a stream to nobody")
		}
		if _, err := a.Open(t.Context(), "b0", -1, echo); err == nil {
			t.Error("opened lane -1")
		}
		if _, err := a.Open(t.Context(), "b0", 0, echo); err == nil {
			t.Error("opened a stream to an unknown member")
		}
		if _, err := a.OpenAddr(t.Context(), nil, echo); err == nil {
			t.Error("opened a stream to no address")
		}
		a.stop()
	})
}

// Opening a stream waits while the peer has all that it allows, for no longer than ctx.
func TestStreamLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		var streams []*lane.Stream
		for range 1024 {
			s, err := a.Open(t.Context(), "b0", 0, held)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, enough)
		defer cancel()
		began := time.Now()
		if _, err := a.Open(ctx, "b0", 0, held); !errors.Is(err, enough) || time.Since(began) != 3*time.Second {
			t.Errorf("stream 1025 after %v: %v", time.Since(began), err)
		}
		a.mustTalk(t, "b0", 1) // another connection has its own limit
		for _, s := range streams {
			s.Abort()
		}
		b.stop() // ends the handlers, which do not look at their streams
		a.stop()
	})
}
