package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

func TestAllgatherReturnsBlocksInRankOrder(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c", "d")
			rng := rand.New(rand.NewPCG(seed, 99))
			ranks := make([]string, 1+rng.IntN(9))
			for i := range ranks {
				ranks[i] = string(rune('a' + rng.IntN(4)))
			}
			errs := f.each("job", ranks, func(r *Rank, rank int) error {
				for round := range uint64(3) {
					var want []byte
					for i := range ranks {
						want = append(want, block(seed+round, i)...)
					}
					res, err := r.Allgather(context.Background(), Bytes(block(seed+round, rank)), Wish{})
					if err != nil {
						return err
					}
					if !bytes.Equal(res.Data, want) {
						return fmt.Errorf("round %d: wrong bytes", round)
					}
					res.Release()
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d of %v: %v", seed, i, ranks, err)
				}
			}
			time.Sleep(time.Second)
			stop()
			if f.live != 0 {
				t.Errorf("seed %d: %d result buffers were not released", seed, f.live)
			}
			for _, g := range f.hosts {
				if len(g.members)+len(g.coords)+len(g.claimed)+len(g.dir.jobs) != 0 {
					t.Errorf("seed %d: %s keeps state of a group that is over", seed, g.cfg.Self)
				}
			}
		})
	}
}

func TestSameJobAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for range 5 {
			for i, err := range f.each("job", []string{"a", "b", "a"}, func(r *Rank, _ int) error {
				res, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
				if err == nil {
					res.Release()
				}
				return err
			}) {
				if err != nil {
					t.Fatalf("rank %d: %v", i, err)
				}
			}
		}
	})
}

// A tape keeps what is sent on it.
type tape struct{ bytes.Buffer }

func (*tape) Close() error                    { return nil }
func (*tape) SetReadDeadline(time.Time) error { return nil }
func (*tape) CancelRead(quic.StreamErrorCode) {}
func (*tape) Abort()                          {}

// A member of the cluster that is not of the group attaches, and sends its word in the same
// write, so that it lies in the coordinator's buffer when the conn is refused.
func TestStrangerHasNoSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		for i, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			if rank == 0 {
				var said tape
				c := newStreamConn(&said)
				c.Send(message{Kind: kindAttach, Group: r.m.id})
				c.Send(message{Kind: kindBroken, Cause: "says the stranger"})
				s, err := f.dial("c", "a")
				if err != nil {
					return err
				}
				if _, err := s.Write(said.Bytes()); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			res, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
			if err == nil {
				res.Release()
			}
			return err
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// A conn that waits for a coordinator which never comes must not outlive Run.
func TestEarlyConnEndsWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		s, err := f.dial("b", "a")
		if err != nil {
			t.Fatal(err)
		}
		c := newStreamConn(s)
		if err := c.Send(message{Kind: kindAttach, Group: ID{1}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		stop()
		if _, err := c.Recv(); err == nil || time.Since(begun) > 0 {
			t.Errorf("the conn ended after %v with %v, want at once", time.Since(begun), err)
		}
	})
}

// failures runs one operation of six ranks on three hosts, with harm done one second
// into an exchange of a minute, and returns what the ranks got.
func failures(t *testing.T, harm func(f *fabric, ranks []*Rank)) []error {
	f, stop := newFabric(t, "a", "b", "c")
	defer stop()
	f.hold = time.Minute
	var mu sync.Mutex
	ranks := make([]*Rank, 6)
	go func() {
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		harm(f, ranks)
	}()
	start := time.Now()
	errs := f.each("job", []string{"a", "b", "c", "a", "b", "c"}, func(r *Rank, rank int) error {
		mu.Lock()
		ranks[rank] = r
		mu.Unlock()
		res, err := r.Allgather(context.Background(), Bytes{byte(rank)}, Wish{})
		if err == nil {
			res.Release()
		}
		return err
	})
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("the ranks ended after %v", d)
	}
	if f.live != 0 {
		t.Errorf("%d result buffers were not released", f.live)
	}
	return errs
}

func wantFailure(t *testing.T, err error, want Failure) {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Kind != want.Kind || f.Rank != want.Rank || f.Host != want.Host || !strings.Contains(f.Cause, want.Cause) {
		t.Errorf("got error %v, want %+v", err, want)
	}
}

func TestLostClientIsNamedAtEveryRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range failures(t, func(_ *fabric, r []*Rank) { go r[4].Leave("its client ended") }) {
			wantFailure(t, err, Failure{Kind: RankLost, Rank: 4, Host: "b", Cause: "its client ended"})
		}
	})
}

func TestLostHostIsNamedAtEveryOtherRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, err := range failures(t, func(f *fabric, _ []*Rank) { f.kill("c") }) {
			if i%3 != 2 {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 2, Host: "c", Cause: "cannot be reached"})
			} else if err == nil {
				t.Errorf("rank %d on the lost host got a result", i)
			}
		}
	})
}

func TestSilentHostIsNamedAtEveryOtherRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, err := range failures(t, func(f *fabric, _ []*Rank) {
			f.mu.Lock()
			f.mute["b"] = true
			f.mu.Unlock()
		}) {
			if i%3 != 1 {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 1, Host: "b", Cause: "nothing was heard"})
			} else {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 0, Host: "a", Cause: "nothing was heard"})
			}
		}
	})
}

func TestLostCoordinatorIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, err := range failures(t, func(f *fabric, _ []*Rank) { f.kill("a") }) {
			if i%3 != 0 {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 0, Host: "a", Cause: "cannot be reached"})
			} else if err == nil {
				t.Errorf("rank %d on the lost host got a result", i)
			}
		}
	})
}

func TestRanksThatDisagree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		errs := f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			_, err := r.Allgather(context.Background(), Bytes(nil), Wish{Algorithm: []string{"min3", "ring"}[rank]})
			return err
		})
		for _, err := range errs {
			var fail *Failure
			if !errors.As(err, &fail) || fail.Kind != Mismatch || !strings.Contains(fail.Cause, "ring") || !strings.Contains(fail.Cause, "min3") {
				t.Errorf("different algorithms: %v", err)
			}
		}
		var wg sync.WaitGroup
		for i, host := range []string{"a", "b"} {
			wg.Go(func() {
				_, err := f.hosts[host].Join(context.Background(), "sizes", i, 2+i, JoinOptions{})
				var fail *Failure
				if !errors.As(err, &fail) || fail.Kind != Mismatch {
					t.Errorf("different numbers of ranks: %v", err)
				}
			})
		}
		wg.Wait()
		for _, err := range f.each("job", []string{"a", "b"}, func(r *Rank, _ int) error {
			_, err := r.Allgather(context.Background(), Bytes(nil), Wish{Algorithm: "broken"})
			return err
		}) {
			if err == nil || !strings.Contains(err.Error(), "no such algorithm") {
				t.Errorf("planning that fails: %v", err)
			}
		}
	})
}

func TestRankThatGivesUpWhileForming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := f.hosts["b"].Join(ctx, "job", 1, 2, JoinOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("join without the others: %v", err)
		}
		// The place is free again, here and, once the withdrawal has arrived, at the directory.
		time.Sleep(time.Second)
		for i, err := range f.each("job", []string{"a", "a"}, func(*Rank, int) error { return nil }) {
			if err != nil {
				t.Errorf("rank %d after another host gave its place up: %v", i, err)
			}
		}
	})
}

func FuzzMessage(f *testing.F) {
	var buf bytes.Buffer
	c := newStreamConn(&sink{&buf})
	c.Send(message{Kind: kindStart, Seq: 3, Sizes: []int64{1, 2}, Part: []byte("part"), Rows: []byte("rows")})
	f.Add(buf.Bytes())
	f.Add([]byte{2, '{', '}', 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newStreamConn(&sink{bytes.NewBuffer(in)})
		m, err := c.Recv()
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := newStreamConn(&sink{&out}).Send(m); err != nil {
			t.Fatal(err)
		}
		again, err := newStreamConn(&sink{&out}).Recv()
		if err != nil || again.Kind != m.Kind || again.Seq != m.Seq || !bytes.Equal(again.Part, m.Part) || !bytes.Equal(again.Rows, m.Rows) {
			t.Fatalf("round trip of %+v: %+v, %v", m, again, err)
		}
	})
}

// sink is a Stream over a buffer.
type sink struct{ *bytes.Buffer }

func (*sink) Close() error                    { return nil }
func (*sink) CancelRead(quic.StreamErrorCode) {}
func (*sink) SetReadDeadline(time.Time) error { return nil }
func (*sink) Abort()                          {}

// TestLastWordIsHeard: a host goes on until each of its ranks has said that it leaves. Ranks that left at the same instant used to be
// counted before they had said so: the host ended, and the other ranks heard that the last one was lost.
func TestLastWordIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "c")
		f.each("job", []string{"a", "c", "c"}, func(r *Rank, rank int) error {
			switch rank {
			case 1: // leaves, and has not come to say so yet
				r.m.mu.Lock()
				r.gone = true
				r.m.mu.Unlock()
				time.Sleep(2 * time.Second)
				if err := context.Cause(r.m.ctx); err != nil {
					t.Errorf("the host has ended the group: %v", err)
				}
				r.m.mu.Lock()
				r.gone = false
				r.m.mu.Unlock()
			case 2:
				time.Sleep(time.Second)
			default:
				time.Sleep(3 * time.Second)
				if err := context.Cause(r.m.ctx); err != nil {
					t.Errorf("rank 0 heard %v", err)
				}
			}
			r.Leave("")
			return nil
		})
		stop()
	})
}

// TestResultBeforeTheEnd: a rank that waits for what is over has its result, also if its time is up by then: giving up ends the
// group for all.
func TestResultBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0}, Limit: 1000} }
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for i, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			for i := range 50 {
				o, err := r.Start(Call{Collective: Barrier})
				if err != nil {
					return fmt.Errorf("barrier %d: %w", i, err)
				}
				select {
				case <-o.o.finished:
				case <-r.Done().Done():
				}
				if _, err := o.Wait(over); err != nil {
					return fmt.Errorf("barrier %d is over: %w", i, err)
				}
				o.Drop()
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}
