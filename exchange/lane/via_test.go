package lane_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// takesVia has n echo what comes by way of others, and say from whom on the channel.
func (n *node) takesVia() (from chan [2]string) {
	from = make(chan [2]string, 100)
	n.HandleViaStreams(echo, func(_ context.Context, s *lane.ViaStream) {
		from <- [2]string{s.Peer.Name, s.Via}
		b, err := io.ReadAll(io.LimitReader(s, 8<<20))
		if err == nil {
			_, err = s.Write(b)
		}
		if err != nil || s.Close() != nil {
			s.Abort()
		}
	})
	return from
}

// sayVia sends bytes over s, which is of kind echo, and checks what comes back.
func sayVia(s *lane.ViaStream, n int) error {
	defer s.Abort()
	want := bytes.Repeat([]byte("by way of others"), n/16+1)
	if _, err := s.Write(want); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
		return errors.Join(err, errors.New("it came back changed"))
	}
	return nil
}

// Streams by way of a third host carry both directions and end in order; each end knows the other one.
func TestVia(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, third, b := c.start("a0"), c.start("a1"), c.prepare(c.listen("b0"), "b0")
		from := b.takesVia()
		b.run(t)
		defer b.stop()
		defer a.stop()
		for _, n := range []int{0, 1, 3 << 20} {
			s, err := a.OpenVia(t.Context(), "a1", "b0", echo)
			if err != nil {
				t.Fatal(err)
			}
			if s.Peer.Name != "b0" || s.Via != "a1" {
				t.Errorf("stream to %s by %s", s.Peer.Name, s.Via)
			}
			if err := sayVia(s, n); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			if got := <-from; got != [2]string{"a0", "a1"} {
				t.Errorf("b0 takes it for a stream of %v", got)
			}
		}
		// More than the third host carries for one member at a time: none stays.
		for range 3 {
			done := make(chan error)
			for range 50 {
				go func() {
					s, err := a.OpenVia(t.Context(), "a1", "b0", echo)
					if err == nil {
						err = sayVia(s, 10)
					}
					done <- err
				}()
			}
			for range 50 {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				<-from
			}
		}
		s, err := a.OpenVia(t.Context(), "a1", "b0", echo)
		if err != nil {
			t.Fatal(err)
		}
		third.stop()
		if _, err := s.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("the third host has ended: %v", err)
		}
		s.Abort()
	})
}

// What a third host may not be asked for, and what the far end does not take.
func TestViaRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, third, b := c.start("a0"), c.start("a1"), c.prepare(c.listen("b0"), "b0")
		b.takesVia()
		b.run(t)
		defer b.stop()
		defer third.stop()
		defer a.stop()
		for _, tc := range []struct{ via, to string }{{"a1", "a0"}, {"a1", "a1"}, {"a0", "b0"}, {"a1", ""}, {"a1", "nobody"}, {"nobody", "b0"}} {
			began := time.Now()
			if s, err := a.OpenVia(t.Context(), tc.via, tc.to, echo); err == nil {
				t.Errorf("%s by way of %s: opened", tc.to, tc.via)
				s.Abort()
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("%s by way of %s: refused after %v", tc.to, tc.via, d)
			}
		}
		for _, name := range []string{"\x02a0", "\x02a1", "\x00", "\x06nobody"} { // past the checks of an honest opener
			s := a.open(t, "a1", lane.StreamVia)
			s.Write([]byte(name))
			if _, err := s.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("%q was carried: %v", name, err)
			}
			s.Abort()
		}
		for _, k := range []lane.StreamKind{sink, lane.StreamVia, lane.StreamCarried, lane.StreamJoin, 'X'} {
			s, err := a.OpenVia(t.Context(), "a1", "b0", k)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("kind %q was taken: %v", k, err)
			}
			s.Abort()
		}
		if b.Waiting() != 0 {
			t.Errorf("%d handshakes in progress", b.Waiting())
		}
	})
}

// carries makes the third host a hostile one, that does with a stream what f does: s comes from the opener, to goes to b0.
func (c *cluster) carries(n *node, f func(s, to *lane.Stream)) {
	n.HandleStreams(lane.StreamVia, func(ctx context.Context, s *lane.Stream) {
		defer s.Abort()
		if _, err := io.ReadFull(s, make([]byte, 3)); err != nil {
			return
		}
		to, err := n.Open(ctx, "b0", 0, lane.StreamCarried)
		if err != nil {
			c.t.Error(err)
			return
		}
		defer to.Abort()
		f(s, to)
	})
}

// A shim is a stream as the connection that TLS wants.
type shim struct{ *lane.Stream }

func (s shim) LocalAddr() net.Addr  { return s.Local }
func (s shim) RemoteAddr() net.Addr { return s.Peer.Addr }

// A third host can neither be the far end nor change or shorten what it carries.
func TestViaHostile(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, third, b := c.start("a0"), c.prepare(c.listen("a1"), "a1"), c.prepare(c.listen("b0"), "b0")
		from := b.takesVia()
		b.run(t)
		var do func(s, to *lane.Stream)
		c.carries(third, func(s, to *lane.Stream) { do(s, to) })
		third.run(t)
		defer b.stop()
		defer third.stop()
		defer a.stop()

		do = func(s, _ *lane.Stream) { // it answers in b0's place, as who it is
			conf := &tls.Config{Certificates: []tls.Certificate{c.credentials("a1").Certificate}, NextProtos: []string{"gridagent-via/1"}, ClientAuth: tls.RequestClientCert}
			tls.Server(shim{s}, conf).Read(make([]byte, 1))
		}
		var other *lane.IdentityError
		if _, err := a.OpenVia(t.Context(), "a1", "b0", echo); !errors.As(err, &other) {
			t.Errorf("answered by the third host: %v", err)
		}
		do = func(s, _ *lane.Stream) { // the same with a certificate of its own making
			conf := &tls.Config{Certificates: []tls.Certificate{newAuthority(t).credentials(t, "b0").Certificate}, NextProtos: []string{"gridagent-via/1"}, ClientAuth: tls.RequestClientCert}
			tls.Server(shim{s}, conf).Read(make([]byte, 1))
		}
		if _, err := a.OpenVia(t.Context(), "a1", "b0", echo); !errors.Is(err, lane.ErrWrongCluster) {
			t.Errorf("answered with a stranger's certificate: %v", err)
		}

		for _, cut := range []bool{true, false} {
			do = func(s, to *lane.Stream) { // it carries the opening, then shortens or changes what comes back
				go io.Copy(to, s)
				buf := make([]byte, 64<<10)
				for n := 0; ; {
					k, err := to.Read(buf)
					if err != nil {
						return
					}
					if n += k; n > 64<<10 {
						if cut {
							s.Close()
							time.Sleep(time.Second)
							return
						}
						buf[0] ^= 1
					}
					if _, err := s.Write(buf[:k]); err != nil {
						return
					}
				}
			}
			s, err := a.OpenVia(t.Context(), "a1", "b0", echo)
			if err != nil {
				t.Fatal(err)
			}
			if err := sayVia(s, 1<<20); err == nil {
				t.Errorf("cut %v: not noticed", cut)
			}
			<-from
		}
	})
}

// The far end takes in nobody without a certificate of the cluster, nor one who says another protocol's name, by way of whoever.
func TestViaStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		from := b.takesVia()
		b.run(t)
		defer b.stop()
		defer a.stop()
		good, bad := c.credentials("a1").Certificate, newAuthority(t).credentials(t, "a1").Certificate
		for _, tc := range []struct {
			name  string
			certs []tls.Certificate
			proto string
			taken bool
		}{
			{"a member", []tls.Certificate{good}, "gridagent-via/1", true},
			{"no certificate", nil, "gridagent-via/1", false},
			{"another cluster's", []tls.Certificate{bad}, "gridagent-via/1", false},
			{"itself", []tls.Certificate{c.credentials("b0").Certificate}, "gridagent-via/1", false},
			{"another protocol", []tls.Certificate{good}, "gridagent/1", false},
			{"no protocol", []tls.Certificate{good}, "", false},
		} {
			s := a.open(t, "b0", lane.StreamCarried)
			conf := &tls.Config{Certificates: tc.certs, InsecureSkipVerify: true}
			if tc.proto != "" {
				conf.NextProtos = []string{tc.proto}
			}
			conn := tls.Client(shim{s}, conf)
			conn.Write([]byte{byte(echo)})
			conn.CloseWrite()
			_, err := io.ReadAll(conn)
			if taken := err == nil; taken != tc.taken {
				t.Errorf("%s: %v", tc.name, err)
			}
			s.Abort()
		}
		if len(from) != 1 {
			t.Errorf("%d streams were handled, want 1", len(from))
		}
		// One that says nothing is given up.
		s := a.open(t, "b0", lane.StreamCarried)
		began := time.Now()
		if _, err := s.Read(make([]byte, 1)); err == nil || time.Since(began) > 15*time.Second {
			t.Errorf("a stream that says nothing: %v after %v", err, time.Since(began))
		}
		s.Abort()
	})
}
