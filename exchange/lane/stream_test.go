package lane_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
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

// tells reads streams to their ends, and passes on what each brought.
func tells(t *testing.T, got chan<- []byte) func(context.Context, *lane.Stream) {
	return func(_ context.Context, s *lane.Stream) {
		all, err := io.ReadAll(s)
		if err != nil {
			t.Error(err)
		}
		s.Close()
		got <- all
	}
}

// What goes out in two pieces goes out as one: a head of a few bytes gets no packet of its own, and all arrives in order, whatever the sizes.
func TestWriteBoth(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		const pieces, body = 200, 2000
		got := make(chan []byte, 1)
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		b.HandleStreams(lane.StreamData, tells(t, got))
		b.run(t)
		s := a.open(t, "b0", lane.StreamData)
		rng := rand.New(rand.NewPCG(1, 8))
		random := func(n int) []byte {
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			return p
		}
		var want []byte
		send := func(head, body []byte) {
			t.Helper()
			if n, err := s.WriteBoth(head, body); err != nil || n != len(head)+len(body) {
				t.Fatalf("wrote %d of %d and %d bytes: %v", n, len(head), len(body), err)
			}
			want = append(append(want, head...), body...)
		}
		before := s.Stats().PacketsSent
		for range pieces {
			send(random(5), random(body))
			time.Sleep(10 * time.Millisecond) // all that can go out has
		}
		// Two packets a piece, and now and then an acknowledgement.
		if sent := s.Stats().PacketsSent - before; sent > pieces*5/2 {
			t.Errorf("%d packets for %d pieces of %d bytes", sent, pieces, body)
		}
		for _, n := range []int{0, 1, 8<<10 - 6, 8<<10 - 5, 8 << 10, 8<<10 + 1, 100 << 10} {
			send(random(5), random(n))
			send(nil, random(n))
			send(random(n), nil)
		}
		s.Close()
		if all := <-got; !bytes.Equal(all, want) {
			t.Errorf("%d bytes arrived of %d, or others", len(all), len(want))
		}
		a.stop()
		b.stop()
	})
}

// TestWriteLast: the end of a stream goes out in the packet of its last bytes, also where these are more than one packet has room for, and of a stream that has said nothing yet.
func TestWriteLast(t *testing.T) {
	const streams = 20
	for _, c := range []struct {
		name   string
		first  int // bytes that Write has had before
		bytes  int
		packed uint64 // packets of each stream
	}{
		{"a packet", 0, 500, 1}, {"two packets", 0, 2000, 2}, {"two more packets", 100, 2000, 3}, {"five packets", 0, 6000, 5},
		{"long", 0, 64 << 10, 56}, // as it comes
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cl *cluster) {
				got := make(chan []byte, 1)
				a, b := cl.start("a0"), cl.prepare(cl.listen("b0"), "b0")
				b.HandleStreams(lane.StreamData, tells(t, got))
				b.run(t)
				var sent uint64
				for i := range streams + 5 { // those of the first streams look for the size of packets as well
					s := a.open(t, "b0", lane.StreamData)
					want := bytes.Repeat([]byte{byte(i + 1)}, c.first+c.bytes)
					before := s.Stats().PacketsSent
					if c.first > 0 {
						if _, err := s.Write(want[:c.first]); err != nil {
							t.Fatal(err)
						}
						time.Sleep(oneWay)
					}
					if err := s.WriteLast(want[c.first:]); err != nil {
						t.Fatal(err)
					}
					if all := <-got; !bytes.Equal(all, want) {
						t.Fatalf("%d bytes arrived of %d, or others", len(all), len(want))
					}
					if i >= 5 {
						sent += s.Stats().PacketsSent - before
					}
					s.EndRead()
					time.Sleep(time.Second)
				}
				// What acknowledges the end of the peer is not among them; a few ends may go by themselves.
				if most := streams*c.packed + streams/4; sent > most {
					t.Errorf("%d packets for %d streams of %d bytes, want %d at most", sent, streams, c.first+c.bytes, most)
				}
				a.stop()
				b.stop()
			})
		})
	}
}

// A nudge is one packet, which the peer acknowledges and says nothing to.
func TestNudge(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		a.mustTalk(t, "b0", 0)
		time.Sleep(time.Second) // both are done with what the handshake leaves
		s := a.open(t, "b0", echo)
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := s.Stats()
		s.Nudge()
		time.Sleep(10 * oneWay)
		after := s.Stats()
		if sent, got := after.PacketsSent-before.PacketsSent, after.PacketsReceived-before.PacketsReceived; sent != 1 || got != 1 {
			t.Errorf("a nudge took %d packets there and %d back, want one each", sent, got)
		}
		s.Abort()
		a.stop()
		b.stop()
	})
}

// TestEndRead: whoever has ended its own side lets the peer end the other one, and tells it nothing; but not for ever.
func TestEndRead(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // that the peer ends its side
		reset bool
	}{
		"soon": {50 * time.Millisecond, false},
		"late": {5 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cl *cluster) {
				over := make(chan error, 1)
				a, b := cl.start("a0"), cl.prepare(cl.listen("b0"), "b0")
				b.HandleStreams(lane.StreamData, func(_ context.Context, s *lane.Stream) {
					_, err := io.Copy(io.Discard, s)
					time.Sleep(c.after)
					if err == nil {
						err = s.WriteLast([]byte("over"))
					}
					over <- err
				})
				b.run(t)
				s := a.open(t, "b0", lane.StreamData)
				if err := s.WriteLast([]byte("data")); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				s.EndRead()
				if d := time.Since(began); d > 0 {
					t.Errorf("it has blocked for %v", d)
				}
				var reset *quic.StreamError
				if err := <-over; errors.As(err, &reset) != c.reset || err != nil && !c.reset {
					t.Errorf("the peer that ends its side after %v: %v, want a reset: %v", c.after, err, c.reset)
				}
				a.stop()
				b.stop()
			})
		})
	}
}
