package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/agent/group"
)

// A fakeWay is one end of a stream: it keeps what is written, and gives what is put into in. Its packets are counted.
type fakeWay struct {
	in   chan []byte
	gone chan struct{}
	once sync.Once

	mu       sync.Mutex
	out      bytes.Buffer
	closed   bool
	ends     quic.StreamErrorCode // of CancelWrite
	deadline time.Time
	began    time.Time
	heard    func(since time.Duration) uint64 // packets that have come back; nil: none
}

func newFakeWay() *fakeWay {
	return &fakeWay{in: make(chan []byte, 10), gone: make(chan struct{}), began: time.Now()}
}

func (f *fakeWay) Read(p []byte) (int, error) {
	f.mu.Lock()
	deadline := f.deadline
	f.mu.Unlock()
	var late <-chan time.Time
	if !deadline.IsZero() {
		late = time.After(time.Until(deadline))
	}
	select {
	case b, ok := <-f.in:
		if !ok {
			return 0, io.EOF
		}
		return copy(p, b), nil
	case <-late:
		return 0, os.ErrDeadlineExceeded
	case <-f.gone:
		return 0, io.ErrClosedPipe
	}
}

func (f *fakeWay) Write(p []byte) (int, error) {
	select {
	case <-f.gone:
		return 0, io.ErrClosedPipe
	default:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *fakeWay) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *fakeWay) SetReadDeadline(t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deadline = t
	return nil
}

func (f *fakeWay) Abort()                          { f.once.Do(func() { close(f.gone) }) }
func (f *fakeWay) CancelRead(quic.StreamErrorCode) { f.Abort() }
func (f *fakeWay) CancelWrite(code quic.StreamErrorCode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends = code
}

func (f *fakeWay) ended() bool {
	select {
	case <-f.gone:
		return true
	default:
		return false
	}
}

func (f *fakeWay) code() quic.StreamErrorCode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends
}

func (f *fakeWay) written() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String(), f.closed
}

// Stats: ten packets a second go out.
func (f *fakeWay) Stats() quic.ConnectionStats {
	since := time.Since(f.began)
	st := quic.ConnectionStats{PacketsSent: uint64(since / (100 * time.Millisecond))}
	if f.heard != nil {
		st.PacketsReceived = f.heard(since)
	}
	return st
}

// fakeWays are ways on which the straight stream is straight, and by the third host comes aside after some time, or an error.
func fakeWays(straight, aside *fakeWay, after time.Duration, err error) *groupWays {
	broken := false
	return &groupWays{
		straight: func(context.Context, string) (straightStream, error) { return straight, nil },
		quic:     func(context.Context, string) (straightStream, error) { return straight, nil },
		by: func(ctx context.Context, _, _ string) (group.Stream, error) {
			select {
			case <-time.After(after):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			return aside, nil
		},
		vias:   func(string) []string { return []string{"via"} },
		broken: func(string) bool { return broken },
		broke:  func(string, time.Time) { broken = true },
		log:    slog.New(slog.DiscardHandler),
	}
}

func within(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

// TestWaryStreamMoves: what is written on a stream whose peer is silent arrives by way of another host, whole, once and in order, when
// it was written before, during or after the move; and answers are read from there.
func TestWaryStreamMoves(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 11))
			straight, aside := newFakeWay(), newFakeWay()
			s, err := fakeWays(straight, aside, within(rng, 2*time.Second), nil).open(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			var reading sync.WaitGroup
			reading.Go(func() {
				buf := make([]byte, 100)
				for deadline := time.Now(); ; {
					if rng := rand.New(rand.NewPCG(seed, uint64(len(got)))); rng.IntN(2) == 0 {
						deadline = time.Now().Add(7 * time.Second)
						s.SetReadDeadline(deadline)
					}
					n, err := s.Read(buf)
					if errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
						deadline = time.Now().Add(7 * time.Second)
						s.SetReadDeadline(deadline)
						continue
					}
					if err != nil {
						if err != io.EOF {
							t.Errorf("seed %d: read: %v", seed, err)
						}
						return
					}
					got = append(got, buf[:n]...)
				}
			})
			want := ""
			end := time.Now().Add(within(rng, 9*time.Second))
			for time.Now().Before(end) {
				word := string(rune('a' + rng.IntN(26)))
				if _, err := s.Write([]byte(word)); err != nil {
					t.Fatalf("seed %d: write after %v: %v", seed, time.Since(straight.began), err)
				}
				want += word
				time.Sleep(within(rng, time.Second))
			}
			closes := rng.IntN(2) == 0
			if closes {
				s.Close()
			}
			time.Sleep(8 * time.Second)
			if code := straight.code(); !straight.ended() || code != group.MovedCode {
				t.Errorf("seed %d: the straight stream goes on, or has ended with %d", seed, code)
			}
			if out, closed := aside.written(); out != want || closed != closes {
				t.Errorf("seed %d: %q came, closed %v; want %q, %v", seed, out, closed, want, closes)
			}
			aside.in <- []byte("answer")
			close(aside.in)
			reading.Wait()
			if string(got) != "answer" {
				t.Errorf("seed %d: read %q", seed, got)
			}
			s.Abort()
			if !aside.ended() {
				t.Errorf("seed %d: the second stream goes on", seed)
			}
		})
	}
}

// current returns the stream that a wary one is now.
func current(s group.Stream) group.Stream {
	y := s.(*waryStream)
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.s
}

// TestWaryStreamStays: a stream stays straight where packets come back, and where its peer has answered, whatever follows; and ends where
// more was said than is kept, or no other host leads there. What is given up meanwhile leaves nothing open.
func TestWaryStreamStays(t *testing.T) {
	for _, tc := range []struct {
		name             string
		do               func(s group.Stream, straight *fakeWay)
		heard            func(since time.Duration) uint64
		err              error // of the other way
		straight, second bool  // goes on, without Abort
	}{
		{name: "packets come", heard: func(d time.Duration) uint64 { return uint64(d / time.Second) }, straight: true},
		{name: "answered", do: func(s group.Stream, straight *fakeWay) {
			straight.in <- []byte("x")
			s.Read(make([]byte, 1))
		}, straight: true},
		{name: "much said", do: func(s group.Stream, _ *fakeWay) { s.Write(make([]byte, maxSaid+1)) }},
		{name: "much said meanwhile", do: func(s group.Stream, _ *fakeWay) {
			s.Write([]byte("x"))
			time.Sleep(5 * time.Second)
			s.Write(make([]byte, maxSaid))
		}},
		{name: "no other way", err: io.ErrClosedPipe},
		{name: "moves", do: func(_ group.Stream, straight *fakeWay) {
			time.Sleep(4 * time.Second)
			if straight.ended() {
				t.Error("given up within 4 s")
			}
		}, second: true},
		{name: "aborted meanwhile", do: func(s group.Stream, _ *fakeWay) { time.Sleep(5 * time.Second); s.Abort() }},
		{name: "cancelled meanwhile", do: func(s group.Stream, _ *fakeWay) { time.Sleep(5 * time.Second); s.Close(); s.CancelRead(0) }},
		{name: "aborted before", do: func(s group.Stream, _ *fakeWay) { s.Abort() }},
	} {
		synctest.Test(t, func(t *testing.T) {
			straight, aside := newFakeWay(), newFakeWay()
			straight.heard = tc.heard
			s, err := fakeWays(straight, aside, 2*time.Second, tc.err).open(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			if tc.do != nil {
				tc.do(s, straight)
			}
			time.Sleep(20 * time.Second)
			if straight.ended() == tc.straight {
				t.Errorf("%s: the straight stream goes on: %v, want %v", tc.name, !straight.ended(), tc.straight)
			}
			if current(s) == group.Stream(aside) != tc.second {
				t.Errorf("%s: it has another way: %v, want %v", tc.name, !tc.second, tc.second)
			}
			if !tc.straight && !tc.second {
				if _, err := s.Read(make([]byte, 1)); err == nil {
					t.Errorf("%s: nothing is lost", tc.name)
				}
				if _, err := s.Write([]byte("x")); err == nil {
					t.Errorf("%s: it is written to", tc.name)
				}
			}
			s.Abort()
		})
	}
}

// TestGroupWays: which way a stream is opened.
func TestGroupWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		straight, aside := newFakeWay(), newFakeWay()
		straight.heard = func(d time.Duration) uint64 { return uint64(d / time.Second) }
		refused := errors.New("refused")
		for _, tc := range []struct {
			name     string
			straight error // nil: it opens; errNotStraight: it takes for ever
			aside    error
			broken   bool
			want     group.Stream // nil: an error
			within   time.Duration
		}{
			{"all is well", nil, nil, false, straight, 0},
			{"known to be broken", errNotStraight, nil, true, aside, 0},
			{"found broken", errNotStraight, nil, false, aside, straightTime},
			{"refused", refused, nil, false, nil, 0},
			{"no way at all", errNotStraight, refused, false, nil, straightTime},
			{"whole again", nil, refused, true, straight, 0},
		} {
			w := fakeWays(straight, aside, 0, tc.aside)
			if tc.broken {
				w.broke("b", time.Now())
			}
			w.straight = func(ctx context.Context, _ string) (straightStream, error) {
				if tc.straight == errNotStraight {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return straight, tc.straight
			}
			w.quic = w.straight
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			began := time.Now()
			s, err := w.open(ctx, "b")
			cancel()
			if y, ok := s.(*waryStream); ok {
				s = current(y)
				defer y.Abort()
			}
			if s != tc.want || (err == nil) != (tc.want != nil) {
				t.Errorf("%s: %v, %v", tc.name, s, err)
			}
			if d := time.Since(began); d != tc.within {
				t.Errorf("%s: after %v, want %v", tc.name, d, tc.within)
			}
			if want := tc.broken || tc.straight == errNotStraight; w.broken("b") != want {
				t.Errorf("%s: broken %v, want %v", tc.name, !want, want)
			}
		}
	})
}

// TestAgainOnlyIfWanted: a way is given up for another one when that is there, and not if its host has spoken meanwhile.
func TestAgainOnlyIfWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			aside := newFakeWay()
			w := fakeWays(newFakeWay(), aside, time.Second, nil)
			s, err := w.again(t.Context(), "b", time.Now().Add(-5*time.Second), func() bool { return wanted && !w.broken("b") })
			if (err == nil) != wanted || (s != nil) != wanted || w.broken("b") != wanted || aside.ended() == wanted {
				t.Errorf("wanted %v: %v, %v; broken %v", wanted, s, err, w.broken("b"))
			}
		})
	}
}

// TestAgainAfterCut: a stream that has ended though its host was heard a moment ago is followed by a straight one, and the way is not given up.
func TestAgainAfterCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		straight := newFakeWay()
		w := fakeWays(straight, newFakeWay(), time.Second, nil)
		w.straight = nil // it may be what was cut off
		since := time.Now().Add(-1500 * time.Millisecond)
		if s, err := w.again(t.Context(), "b", since, func() bool { return true }); err != nil || s != group.Stream(straight) || w.broken("b") {
			t.Errorf("%v, %v; broken %v", s, err, w.broken("b"))
		}
		w.broke("b", time.Now())
		if s, err := w.again(t.Context(), "b", since, func() bool { return true }); err != nil || s == group.Stream(straight) {
			t.Errorf("broken: %v, %v", s, err)
		}
	})
}
