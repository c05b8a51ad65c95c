package lane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// trusting accepts every seed.
func trusting() *tls.Config { return lane.JoinTLS(func([]*x509.Certificate) error { return nil }) }

// answerJoins makes n answer joins with what they said.
func (n *node) answerJoins() {
	n.HandleStreams(lane.StreamJoin, func(_ context.Context, s *lane.Stream) {
		b, err := io.ReadAll(s)
		if err != nil {
			s.Abort()
			return
		}
		s.Write(append([]byte(s.Peer.Name), b...))
		s.Close()
	})
}

// join asks the seed at addr from host, as a host without a certificate does.
func (c *cluster) join(t testing.TB, host string, addr net.Addr, conf *tls.Config, f func(*lane.Stream) error) error {
	t.Helper()
	conn := c.listen(host)
	defer conn.Close()
	tr := &quic.Transport{Conn: conn}
	defer tr.Close()
	s, closeConn, err := lane.Join(t.Context(), tr, addr, conf, nil)
	if err != nil {
		return err
	}
	defer closeConn()
	return f(s)
}

func TestJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.prepare(c.listen("b0"), "b0")
		b.answerJoins()
		b.run(t)
		var seen []*x509.Certificate
		conf := lane.JoinTLS(func(chain []*x509.Certificate) error { seen = chain; return nil })
		if err := c.join(t, "a0", b.Addr(), conf, say); err != nil {
			t.Error(err)
		}
		if len(seen) != 2 || seen[0].Subject.CommonName != "b0" || !seen[1].Equal(c.ca.cert) {
			t.Errorf("the seed's chain: %d certificates", len(seen))
		}
		time.Sleep(time.Second)
		b.wantLinks(t, 0) // a joining host is no member
		if len(b.refused) > 0 || b.Waiting() != 0 {
			t.Errorf("%d refusals, %d handshakes in progress", len(b.refused), b.Waiting())
		}
		b.stop()
	})
}

// A host that does not accept the seed sends it nothing, and the seed's operator can see it.
func TestJoinRefusesSeed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.prepare(c.listen("b0"), "b0")
		b.answerJoins()
		b.run(t)
		impostor := errors.New("impostor")
		conf := lane.JoinTLS(func([]*x509.Certificate) error { return impostor })
		err := c.join(t, "a0", b.Addr(), conf, say)
		if !errors.Is(err, impostor) {
			t.Errorf("join: %v", err)
		}
		b.one(t)
		b.stop()
	})
}

// Nothing but one stream of kind join is served on a join connection, also if the
// client names the members' protocol beside it or presents a member's certificate.
func TestJoinConnectionsDoNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.prepare(c.listen("b0"), "b0")
		b.answerJoins()
		b.run(t)
		for _, conf := range []*tls.Config{
			{InsecureSkipVerify: true, NextProtos: []string{"gridagent-join/1"}},
			{InsecureSkipVerify: true, NextProtos: []string{"gridagent/1", "gridagent-join/1"}, Certificates: []tls.Certificate{c.credentials("a0").Certificate}},
		} {
			err := withConn(t, c, "a0", b.Addr(), conf, func(q *quic.Conn) {
				if got, err := ask(q, string(rune(echo))+"x"); err == nil {
					t.Errorf("a stranger's stream was served: %q", got)
				}
			})
			if err != nil {
				t.Error(err)
			}
			err = withConn(t, c, "a0", b.Addr(), conf, func(q *quic.Conn) {
				if got, err := ask(q, "jx"); err != nil || got != "x" {
					t.Errorf("join: %q, %v", got, err)
				}
				began := time.Now()
				if got, err := ask(q, "jy"); err == nil {
					t.Errorf("a second join on one connection: %q", got)
				}
				if d := time.Since(began); d > 31*time.Second {
					t.Errorf("the connection lasted %v", d)
				}
			})
			if err != nil {
				t.Error(err)
			}
			b.wantLinks(t, 0)
		}
		b.stop()
	})
}

// A host that stays and says nothing, at any point, is shown out.
func TestSilentJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.prepare(c.listen("b0"), "b0")
		b.HandleStreams(lane.StreamJoin, func(_ context.Context, s *lane.Stream) {
			io.ReadAll(s) // without a deadline of its own
			s.Abort()
		})
		b.run(t)
		for _, begin := range []string{"", "j"} {
			conf := trusting()
			err := withConn(t, c, "a0", b.Addr(), conf, func(q *quic.Conn) {
				began := time.Now()
				if s, err := q.OpenStream(); err != nil {
					t.Error(err)
				} else if _, err := s.Write([]byte(begin)); err != nil {
					t.Error(err)
				}
				done := time.AfterFunc(20*time.Second, func() { ask(q, "?") }) // sign of life
				defer done.Stop()
				<-q.Context().Done()
				var closed *quic.ApplicationError
				if d := time.Since(began); !errors.As(context.Cause(q.Context()), &closed) || d < 29*time.Second || d > 31*time.Second {
					t.Errorf("after %q: shown out after %v: %v", begin, d, context.Cause(q.Context()))
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
		b.stop()
	})
}

// Joins at once are bounded, by source and in all; and joins that hang do not hold up
// the end of the endpoint, nor do members notice them.
func TestManyJoins(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		b.HandleStreams(lane.StreamJoin, func(ctx context.Context, s *lane.Stream) { <-ctx.Done(); s.Abort() })
		b.run(t)
		busy := make(map[string]int)
		var mu sync.Mutex // guards busy
		var joins sync.WaitGroup
		for _, host := range []string{"a1", "a2", "b1"} {
			for range 20 {
				joins.Go(func() {
					withConn(t, c, host, b.Addr(), trusting(), func(q *quic.Conn) {
						_, err := ask(q, "j")
						var closed *quic.ApplicationError
						if errors.As(err, &closed) && closed.ErrorCode == 2 {
							mu.Lock()
							busy[host]++
							mu.Unlock()
						}
					})
				})
			}
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		refused := 0
		for host, n := range busy {
			refused += n
			if n < 4 {
				t.Errorf("%s: %d of 20 joins refused, want at least 4", host, n)
			}
		}
		mu.Unlock()
		if refused != 60-32 {
			t.Errorf("%d joins refused, want all but 32 of 60", refused)
		}
		a.mustTalk(t, "b0", 0)
		joins.Wait()
		// There is room again.
		err := withConn(t, c, "a1", b.Addr(), trusting(), func(q *quic.Conn) {
			time.AfterFunc(time.Second, b.cancel)
			began := time.Now()
			ask(q, "j")
			if d := time.Since(began); d < time.Second || d > 2*time.Second {
				t.Errorf("the endpoint's end ended a join after %v, want 1s", d)
			}
		})
		if err != nil {
			t.Error(err)
		}
		b.stop()
		a.stop()
	})
}
