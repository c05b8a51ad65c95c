package group

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// sever loses what is written from now on, on the streams that are open between two hosts, in the given direction. Their connection
// is found dead, at both ends, after a time.
func (f *fabric) sever(from, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.open[from] {
		if s.to == to && !s.severed.Swap(true) {
			time.AfterFunc(cmp.Or(f.dead, 6*time.Second), s.abort)
		}
	}
}

// cutOff ends the streams that are open between two hosts, which both notice.
func (f *fabric) cutOff(a, b string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range slices.Concat(f.open[a], f.open[b]) {
		if s.to == a || s.to == b {
			s.cut.Store(true)
		}
	}
	for _, s := range f.open[a] {
		if s.to == b {
			s.abort()
		}
	}
}

// A deadConn is the error of a stream whose connection was found dead.
type deadConn struct{ error }

func (deadConn) Timeout() bool   { return true }
func (deadConn) Temporary() bool { return true }

// TestSessionMoves: the streams between the coordinator and a host break again and again, in one direction or both, at any moment of a run of
// operations, while further ones can be opened. The group goes on, with the right results.
func TestSessionMoves(t *testing.T) {
	for seed := range uint64(60) {
		if gridtest.Race && seed >= 15 {
			break // these are enough, at five times the CPU time
		}
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			rng := rand.New(rand.NewPCG(seed, 17))
			f.hold = time.Duration(rng.IntN(300)) * time.Millisecond
			if rng.IntN(2) == 0 {
				f.tree = func(hosts []string) Tree { return Tree{Limit: 1 << 10, Leaders: []int{0, 1, 2}} }
			}
			ranks := []string{"a", "b", "c", "b"}
			ends := make(chan struct{})
			go func() {
				time.Sleep(3*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond)
				for range 3 {
					way := rng.IntN(4)
					if way == 0 || way == 2 {
						f.sever("a", "b")
					}
					if way == 0 || way == 1 {
						f.sever("b", "a")
					}
					if way == 3 {
						f.cutOff("a", "b")
					}
					time.Sleep(8*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond)
				}
				close(ends)
			}()
			errs := rounds(f, seed, ranks, 300, 200*time.Millisecond)
			<-ends
			for rank, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, rank, err)
				}
			}
		})
	}
}

// TestCutAtOnce: the streams of a group end when it has just begun, where the members have heard nothing of their coordinator yet.
func TestCutAtOnce(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			rng := rand.New(rand.NewPCG(seed, 18))
			f.tree = func(hosts []string) Tree {
				return Tree{Limit: 1 << 10, Leaders: []int{0, 0, 0}, Rounds: 1 << 10 * int64(seed%2)}
			}
			cut := make(chan struct{})
			go func() {
				defer close(cut)
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
				f.cutOff("a", "b")
			}()
			for rank, err := range f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
				for i := range 40 {
					time.Sleep(time.Millisecond)
					res, err := r.Allgather(t.Context(), Bytes{byte(i), byte(rank)}, Wish{})
					if err != nil {
						return err
					}
					if b := byte(i); !bytes.Equal(res.Data, []byte{b, 0, b, 1, b, 2}) {
						t.Errorf("seed %d: rank %d, operation %d: %v", seed, rank, i, res.Data)
					}
					res.Release()
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, rank, err)
				}
			}
			<-cut
		})
	}
}

// A brokenStream takes nothing.
type brokenStream struct{ drip }

func (*brokenStream) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (*brokenStream) Abort()                    {}

// TestSaysOnBrokenStream: what a member says before it has heard anything is kept when its stream has broken, as it begins again on another one.
func TestSaysOnBrokenStream(t *testing.T) {
	s := newSession(ID{}, newStreamConn(new(brokenStream)))
	if err := s.Send(message{Kind: kindReady}); err == nil {
		t.Error("who cannot begin again keeps its words")
	}
	s = newSession(ID{}, newStreamConn(new(brokenStream)))
	s.again = func(context.Context, time.Time, func() bool) (Stream, error) { return nil, errors.New("none") }
	if err := s.Send(message{Kind: kindAttach}); err != nil || len(s.kept) != 1 {
		t.Errorf("%d words are kept: %v", len(s.kept), err)
	}
	s.Abort()
	if err := s.Send(message{Kind: kindReady}); err == nil {
		t.Error("a session that has ended keeps its words")
	}
}

// TestDetourDies: a session has moved, and the straight way is whole again, so that packets come from the other host. They say nothing of the
// third host: where that one dies without a word, the session moves once more, as soon as the first time.
func TestDetourDies(t *testing.T) {
	for _, way := range [][][2]string{{{"a", "b"}, {"b", "a"}}, {{"a", "b"}}, {{"b", "a"}}} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b")
			defer stop()
			var whole atomic.Bool
			f.dead = time.Minute
			f.hears = func() uint64 {
				if whole.Load() {
					return uint64(time.Now().UnixNano())
				}
				return 0
			}
			go func() {
				time.Sleep(3 * time.Second)
				for range 2 {
					for _, w := range way {
						f.sever(w[0], w[1])
					}
					time.Sleep(15 * time.Second)
					whole.Store(true)
				}
			}()
			for rank, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
				for range 200 {
					time.Sleep(200 * time.Millisecond)
					began := time.Now()
					res, err := r.Allgather(context.Background(), Bytes(block(1, rank)), Wish{})
					if err != nil {
						return err
					}
					res.Release()
					if took := time.Since(began); took > beatPatience {
						t.Errorf("%v: an operation took %v", way, took)
					}
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("%v: rank %d: %v", way, rank, err)
				}
			}
		})
	}
}

// TestNobodyMovesWithoutWay: an end that can open no further stream stays where it is, whatever the other end says.
func TestNobodyMovesWithoutWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(ID{}, newStreamConn(new(drip)))
		defer s.end()
		for range 5 {
			if c := s.current(); !s.take(c, &message{Kind: kindBeat, Got: 1, Deaf: true}) || s.current() != c {
				t.Error("it has moved")
			}
			time.Sleep(deafPause)
		}
	})
}

// TestUnheardForLong: who is told that nothing is heard of him looks for another way as one that nothing has come over for as long as the other end waits before it says so, though he hears it all the time: the straight way leads there no more.
func TestUnheardForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(ID{}, newStreamConn(new(drip)))
		defer s.end()
		s.able = true
		asked := 0
		s.again = func(_ context.Context, since time.Time, wanted func() bool) (Stream, error) {
			asked++
			if silent := time.Since(since); silent < quietTime || !wanted() {
				t.Errorf("nothing was heard for %v, wanted %v; want %v at least", silent, wanted(), quietTime)
			}
			return nil, errors.New("no way")
		}
		for _, deaf := range []bool{true, true, false, true, true} {
			s.take(s.current(), &message{Kind: kindBeat, Got: 1, Deaf: deaf})
			time.Sleep(deafPause)
		}
		if asked != 2 {
			t.Errorf("%d ways were looked for, want 2", asked)
		}
	})
}

// TestBusyIsNotBroken: a host says nothing for some seconds, but before it has answered by another way it is heard again. Then that way is not
// wanted; it is when silence goes on.
func TestBusyIsNotBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var packets uint64
		c := newStreamConn(new(drip))
		c.heard = func() uint64 { return packets }
		s := newSession(ID{}, c)
		s.able = true
		began := time.Now()
		var wants []bool
		s.again = func(_ context.Context, _ time.Time, wanted func() bool) (Stream, error) {
			if len(wants) == 0 {
				packets++
			}
			wants = append(wants, wanted())
			return nil, errors.New("no way")
		}
		if _, err := s.Recv(); err != errSilent || s.moved {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if len(wants) < 2 || wants[0] || !wants[1] || time.Since(began) < quietTime+beatPatience {
			t.Errorf("after %v: wanted %v, want one that is not", time.Since(began), wants)
		}
	})
}

// TestLastWordsAreRepeated: an end says its last words and closes while its stream is being replaced. They go to the new one.
func TestLastWordsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		next := newStreamConn(&half{r: near, w: near, aborted: new(atomic.Bool), mute: func() bool { return false }})
		heard := make(chan []kind, 1)
		go func() {
			var said []kind
			for r := bufio.NewReader(far); ; {
				m, err := readMessage(r)
				if err != nil {
					heard <- said
					return
				}
				said = append(said, m.Kind)
			}
		}()
		s := newSession(ID{}, newStreamConn(new(drip)))
		s.confirmed(1)
		if s.wmu.Lock(); !s.carryOn(next, 1, &message{Kind: kindResumed}, false) { // as if another word held wmu
			t.Fatal("it does not go on")
		}
		s.wmu.Unlock()
		if err := s.Send(message{Kind: kindLeft}); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s.repeat()
		if got := <-heard; !slices.Equal(got, []kind{kindResumed, kindLeft}) {
			t.Errorf("heard %v", got)
		}
	})
}
