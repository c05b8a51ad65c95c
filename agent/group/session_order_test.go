package group

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

// A slowEnd is one end of a stream on which all takes time, ends included, and which may be dead in one direction.
type slowEnd struct {
	other *slowEnd
	delay time.Duration // until what is written here arrives
	dead  bool          // guarded by mu: what is written here does not arrive

	mu       sync.Mutex
	in       []arrival
	gone     bool // aborted here
	deadline time.Time
	news     chan struct{}
}

type arrival struct {
	at  time.Time
	b   []byte
	err error
}

func slowPair(there, back time.Duration) (a, b *slowEnd) {
	a = &slowEnd{delay: there, news: make(chan struct{}, 1)}
	b = &slowEnd{delay: back, news: make(chan struct{}, 1), other: a}
	a.other = b
	return a, b
}

func (e *slowEnd) wake() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

func (e *slowEnd) put(a arrival) {
	e.mu.Lock()
	dead := e.dead
	e.mu.Unlock()
	if dead {
		return
	}
	a.at = time.Now().Add(e.delay)
	o := e.other
	o.mu.Lock()
	o.in = append(o.in, a)
	o.mu.Unlock()
	o.wake()
}

func (e *slowEnd) Read(p []byte) (int, error) {
	for {
		e.mu.Lock()
		now := time.Now()
		switch {
		case e.gone:
			e.mu.Unlock()
			return 0, io.ErrClosedPipe
		case len(e.in) > 0 && !e.in[0].at.After(now):
			a := e.in[0]
			if a.err != nil {
				e.mu.Unlock()
				return 0, a.err
			}
			n := copy(p, a.b)
			if e.in[0].b = a.b[n:]; n == len(a.b) {
				e.in = e.in[1:]
			}
			e.mu.Unlock()
			return n, nil
		case !e.deadline.IsZero() && !e.deadline.After(now):
			e.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		wait := time.Hour
		if len(e.in) > 0 {
			wait = e.in[0].at.Sub(now)
		}
		if !e.deadline.IsZero() {
			wait = min(wait, e.deadline.Sub(now))
		}
		e.mu.Unlock()
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-e.news:
		}
		t.Stop()
	}
}

func (e *slowEnd) Write(p []byte) (int, error) {
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	if gone {
		return 0, io.ErrClosedPipe
	}
	e.put(arrival{b: append([]byte(nil), p...)})
	return len(p), nil
}

func (e *slowEnd) Close() error { e.put(arrival{err: io.EOF}); return nil }

func (e *slowEnd) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = t
	return nil
}

func (e *slowEnd) CancelRead(quic.StreamErrorCode) {
	e.mu.Lock()
	e.gone = true
	e.mu.Unlock()
	e.wake()
}

func (e *slowEnd) Abort() {
	e.CancelRead(0)
	e.put(arrival{err: errors.New("aborted by the peer")})
}

func (e *slowEnd) Aside() bool { return true }

func (e *slowEnd) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
}

// TestSessionKeepsOrder: both ends of a session talk while its streams die in one direction or both, and others answer late, so that one that was given up
// may arrive behind the one that replaced it. Each end hears all that the other one says, once and in order.
func TestSessionKeepsOrder(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng, breaks := rand.New(rand.NewPCG(seed, 5)), rand.New(rand.NewPCG(seed, 6))
			var mu sync.Mutex // guards rng, latest, moves and fails
			var latest *slowEnd
			moves, fails := 0, false
			var of sessions
			var serving sync.WaitGroup
			far := make(chan *session, 1)
			open := func(stale time.Duration) *slowEnd {
				mu.Lock()
				defer mu.Unlock()
				some := func() time.Duration {
					if rng.IntN(3) == 0 {
						return time.Duration(rng.IntN(700)) * time.Millisecond
					}
					return time.Duration(1+rng.IntN(100)) * time.Millisecond
				}
				a, b := slowPair(max(some(), stale), some())
				if stale == 0 {
					latest = a
				}
				serving.Go(func() {
					c := newStreamConn(b)
					m, err := c.Recv()
					switch {
					case err != nil:
						c.Abort()
					case m.Kind == kindAttach:
						far <- of.accept("m", &m, c)
					case of.resume("m", &m, c) != nil:
						c.Abort()
					}
				})
				return a
			}
			near := newSession(ID{}, newStreamConn(open(0)))
			near.again = func(ctx context.Context, _ time.Time, _ func() bool) (Stream, error) {
				mu.Lock()
				moves++
				fails = !fails && rng.IntN(2) == 0
				opens := !fails
				mu.Unlock()
				if opens {
					return open(0), nil
				}
				near.mu.Lock() // the third host takes its word, ends, and its word arrives all the same
				got := near.got
				near.mu.Unlock()
				newStreamConn(open(3 * time.Second)).Send(message{Kind: kindResume, Got: got + 1})
				return nil, errors.New("the third host has ended")
			}
			if err := near.Send(message{Kind: kindAttach}); err != nil {
				t.Fatal(err)
			}
			ends := []*session{near, <-far}
			const words = 400
			var all sync.WaitGroup
			over := make(chan struct{})
			for i, s := range ends {
				pause := time.Duration(1+breaks.IntN(200)) * time.Millisecond
				all.Go(func() { // the outbox
					beat := time.NewTicker(beatPause)
					defer beat.Stop()
					say := time.NewTicker(pause)
					defer say.Stop()
					for n := uint64(0); ; {
						m := message{Kind: kindBeat}
						select {
						case <-s.due:
						case <-beat.C:
						case <-say.C:
							if n == words {
								continue
							}
							m = message{Kind: kindItems, Part: binary.BigEndian.AppendUint64(nil, n)}
							n++
						case <-over:
							return
						}
						if err := s.Send(m); err != nil {
							return
						}
					}
				})
				serving.Go(func() {
					for next := uint64(0); ; {
						m, err := s.Recv()
						if err != nil {
							if next != words {
								t.Errorf("seed %d: end %d heard %d words: %v", seed, i, next, err)
							}
							return
						}
						if m.Kind == kindItems {
							if got := binary.BigEndian.Uint64(m.Part); got != next {
								t.Errorf("seed %d: end %d heard word %d, want %d", seed, i, got, next)
								return
							}
							next++
						}
					}
				})
			}
			time.Sleep(2 * time.Second)
			for range 4 {
				time.Sleep(time.Duration(breaks.IntN(3000)) * time.Millisecond)
				mu.Lock()
				a, way := latest, breaks.IntN(4)
				mu.Unlock()
				switch {
				case way == 3:
					a.other.Abort()
				case way != 0:
					a.kill()
				}
				if way != 1 {
					a.other.kill()
				}
				time.Sleep(15 * time.Second)
			}
			time.Sleep(90 * time.Second)
			close(over)
			all.Wait()
			for _, s := range ends {
				s.Abort()
			}
			serving.Wait()
			if moves < 3 {
				t.Errorf("seed %d: %d moves", seed, moves)
			}
		})
	}
}
