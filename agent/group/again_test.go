package group

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// rounds runs n allgathers of all ranks, each rank some time up to pause after the one before, and checks what they get.
func rounds(f *fabric, seed uint64, ranks []string, n uint64, pause time.Duration) []error {
	return f.each("job", ranks, func(r *Rank, rank int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(rank)))
		for round := range n {
			time.Sleep(time.Duration(rng.Int64N(int64(pause))))
			var want []byte
			for i := range ranks {
				want = append(want, block(seed+round, i)...)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			res, err := r.Allgather(ctx, Bytes(block(seed+round, rank)), Wish{})
			cancel()
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if !bytes.Equal(res.Data, want) {
				return fmt.Errorf("round %d: wrong bytes", round)
			}
			res.Release()
		}
		return nil
	})
}

// A moving stream is given up for another one, on which all that was said comes again, though its peer has heard it: agent/warystream.go's, when
// it is wrong. Nothing is read of the first one.
type moving struct {
	*half
	writing chan struct{} // holds one: who has it writes
	said    []byte
	mu      sync.Mutex
	next    *half // nil: it has not moved
	moved   chan struct{}
}

func newMoving(h *half) *moving {
	m := &moving{half: h, writing: make(chan struct{}, 1), moved: make(chan struct{})}
	m.writing <- struct{}{}
	return m
}

// second returns the stream on which m goes on, nil if it has not moved.
func (m *moving) second() *half {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next
}

func (m *moving) Write(b []byte) (int, error) {
	<-m.writing
	defer func() { m.writing <- struct{}{} }()
	if n := m.second(); n != nil {
		return n.Write(b)
	}
	m.said = append(m.said, b...)
	m.half.Write(b)
	return len(b), nil
}

func (m *moving) Read(b []byte) (int, error) {
	<-m.moved
	return m.next.Read(b)
}

func (m *moving) SetReadDeadline(t time.Time) error {
	if n := m.second(); n != nil {
		return n.SetReadDeadline(t)
	}
	return nil
}

func (m *moving) Close() error {
	<-m.moved
	return m.next.Close()
}

func (m *moving) Abort() {
	m.half.Abort()
	if n := m.second(); n != nil {
		n.Abort()
	}
}

func (m *moving) Aside() bool { return true }

// move goes on over n. The end of the stream before is heard earlier or later than what is said here.
func (m *moving) move(n *half, first bool, pause time.Duration) {
	end := func() { m.half.code.Store(uint32(MovedCode)); m.half.abort() }
	if first {
		end()
		time.Sleep(pause)
	}
	<-m.writing
	n.Write(m.said)
	m.mu.Lock()
	m.next = n
	m.mu.Unlock()
	close(m.moved)
	m.writing <- struct{}{}
	if !first {
		time.Sleep(pause)
		end()
	}
}

// TestAttachComesTwice: a member gives up the stream on which it has attached before it has heard anything there, though all has arrived, and
// says it once more on another one. That is one member, whatever arrives first, and no word counts twice or is missing.
func TestAttachComesTwice(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			rng := rand.New(rand.NewPCG(seed, 41))
			f.ponders = time.Duration(rng.IntN(2000)) * time.Millisecond
			var tasks sync.WaitGroup
			moves := 0
			f.opened = func(a, b *half) Stream {
				if a.to != "a" || a.aside || moves > 1 {
					return a
				}
				moves++ // the register stream of b or c to a, if there is one, or attach
				m := newMoving(a)
				after, pause, first := time.Duration(rng.IntN(2500))*time.Millisecond, time.Duration(rng.IntN(900))*time.Millisecond, rng.IntN(2) == 0
				tasks.Go(func() {
					time.Sleep(after)
					n, err := f.connect(b.to, "a", true)
					if err != nil {
						t.Error(err)
						return
					}
					m.move(n.(*half), first, pause)
				})
				return m
			}
			for rank, err := range rounds(f, seed, []string{"a", "b", "c", "b"}, 5, 600*time.Millisecond) {
				if err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, rank, err)
				}
			}
			tasks.Wait()
			if moves == 0 {
				t.Error("nothing has moved")
			}
		})
	}
}

// TestBeginsOver: nothing of what the coordinator says on a member's first stream arrives, or nothing at all does. The member begins again on another
// one.
func TestBeginsOver(t *testing.T) {
	for _, both := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			f.dead = time.Hour
			lost := 0
			f.opened = func(a, b *half) Stream {
				if a.to == "a" && b.to == "b" && !a.aside {
					lost++
					b.severed.Store(true)
					a.severed.Store(both)
				}
				return a
			}
			began := time.Now()
			for rank, err := range rounds(f, 1, []string{"a", "b", "c", "b"}, 5, 2*time.Second) {
				if err != nil {
					t.Errorf("both %v: rank %d: %v", both, rank, err)
				}
			}
			if lost != 1 || time.Since(began) < quietTime {
				t.Errorf("both %v: %d streams lost, %v", both, lost, time.Since(began))
			}
		})
	}
}

// TestLastWordsLost: a group has failed while its coordinator's words do not arrive at a member, whose host is heard otherwise. When the member
// finds another way, the coordinator is gone: the member gets the same failure as the others, at once.
func TestLastWordsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		f.dead = time.Hour
		f.hears = func() uint64 { return uint64(time.Now().UnixNano()) }
		var none atomic.Bool
		f.opened = func(a, b *half) Stream {
			if none.Load() {
				a.severed.Store(true)
			}
			a.aside, b.aside = true, true
			return a
		}
		began := time.Now()
		f.hold = time.Hour
		go func() {
			time.Sleep(3 * time.Second)
			none.Store(true)
			f.sever("a", "b")
			f.sever("b", "a")
			f.hosts["c"].mu.Lock()
			for _, m := range f.hosts["c"].members {
				m.say(message{Kind: kindBroken, Cause: "the disk is full"})
			}
			f.hosts["c"].mu.Unlock()
			time.Sleep(9 * time.Second)
			none.Store(false)
		}()
		for _, err := range f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
			_, err := r.Allgather(context.Background(), Bytes(block(1, rank)), Wish{})
			return err
		}) {
			wantFailure(t, err, Failure{Kind: Internal, Rank: -1, Host: "c", Cause: "the disk is full"})
		}
		if took := time.Since(began); took < 12*time.Second || took > 25*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
