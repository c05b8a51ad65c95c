package lane_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A stream that nobody handles is reset in both directions, and costs no other stream anything.
func TestUnhandledStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		b.HandleStreams(lane.StreamJoin, func(_ context.Context, s *lane.Stream) {
			t.Error("a member's join stream was handled")
			s.Abort()
		})
		b.run(t)
		for _, k := range []lane.StreamKind{0, 'X', 0xff, lane.StreamJoin} {
			began := time.Now()
			s := a.open(t, "b0", k)
			_, err := s.Read(make([]byte, 1))
			var reset *quic.StreamError
			if !errors.As(err, &reset) || !reset.Remote {
				t.Errorf("kind %#02x: %v, want a reset", byte(k), err)
			}
			if d := time.Since(began); d > 10*oneWay {
				t.Errorf("kind %#02x: reset after %v", byte(k), d)
			}
			if _, err := s.Write(make([]byte, 1)); !errors.As(err, &reset) {
				t.Errorf("kind %#02x: wrote to a stream that nobody reads: %v", byte(k), err)
			}
		}
		a.mustTalk(t, "b0", 0)
		a.wantLinks(t, 1)
		a.stop()
		b.stop()
	})
}

// A peer that opens streams and says nothing does not hold them for ever.
func TestSilentStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b0")
		conf := memberConf(c.credentials("a0").Certificate)
		err := withConn(t, c, "a0", b.Addr(), conf, func(q *quic.Conn) {
			var streams []*quic.Stream
			for range 100 {
				s, err := q.OpenStreamSync(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, s)
			}
			// A stream exists at the peer once one that was opened after it does.
			last, err := q.OpenStreamSync(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := last.Write([]byte{byte(echo), 'x'}); err != nil {
				t.Fatal(err)
			}
			last.Close()
			if got, err := io.ReadAll(last); err != nil || string(got) != "x" {
				t.Errorf("behind silent streams: %q, %v", got, err)
			}
			if d := time.Since(began); d > 10*oneWay {
				t.Errorf("answered after %v", d)
			}
			for i, s := range streams {
				_, err := s.Read(make([]byte, 1))
				var reset *quic.StreamError
				if !errors.As(err, &reset) {
					t.Errorf("silent stream %d: %v", i, err)
				}
			}
			if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
				t.Errorf("silent streams were reset after %v, want 10s", d)
			}
		})
		if err != nil {
			t.Error(err)
		}
		b.stop()
	})
}

// The first byte may come alone, long before the second.
func TestKindComesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		s := a.open(t, "b0", echo)
		time.Sleep(time.Minute) // the deadline of the first byte is not that of the others
		if err := say(s); err != nil {
			t.Error(err)
		}
		a.stop()
		b.stop()
	})
}
