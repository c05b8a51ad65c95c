package group

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestLull: words go in order and together, when the first of them can wait no longer; nobody waits for the call of an operation that is over.
func TestLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		word := func(k kind, seq uint64, d time.Duration) *message {
			m := &message{Kind: k, Seq: seq}
			if d > 0 {
				m.lazy(d)
			}
			return m
		}
		l := newLull()
		defer l.timer.Stop()
		said := func(want ...string) {
			t.Helper()
			var got []string
			if m := l.take(); m != nil {
				for _, w := range together(*m) {
					got = append(got, fmt.Sprint(w.Kind, w.Seq, " ", w.Ago))
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("said %v, want %v", got, want)
			}
		}
		after := func(want time.Duration) {
			t.Helper()
			begun := time.Now()
			<-l.timer.C
			if took := time.Since(begun); took != want {
				t.Errorf("waited %v, want %v", took, want)
			}
		}
		if l.add(word(kindOver, 1, 9*ms)) || l.add(word(kindReady, 2, 10*ms)) {
			t.Error("a word that can wait goes at once")
		}
		time.Sleep(2 * ms)
		l.add(word(kindReady, 3, 50*ms))
		after(8 * ms)
		said("ready2 10ms", "ready3 8ms")

		l.add(word(kindReady, 4, 10*ms))
		l.add(word(kindDone, 4, 100*ms))
		l.add(word(kindReady, 5, 30*ms))
		l.add(word(kindOver, 5, 100*ms))
		after(100 * ms)
		said("ready4 100ms", "done4 100ms", "ready5 100ms")

		l.add(word(kindReady, 6, 10*ms))
		if !l.add(word(kindLeft, 0, 0)) {
			t.Error("a word that cannot wait does")
		}
		said("ready6 0s", "left0 0s")
		said()
		for i := range uint64(maxLazy) {
			if full := l.add(word(kindReady, i, ms)); full != (i == maxLazy-1) {
				t.Errorf("with %d words: %v", i+1, full)
			}
		}
	})
}

// TestCallPause: what took long is said at once, and a call that held up something larger is trusted less.
func TestCallPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 0, time.Microsecond: leastCallPause, 30 * time.Millisecond: 60 * time.Millisecond, 180 * time.Millisecond: maxCallPause, 200 * time.Millisecond: maxCallPause, 201 * time.Millisecond: 0, maxCallPause: 0,
	} {
		if got := callPause(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
	var s smallPause
	row := func() (n int) {
		for ; s.pause() == 0; n++ {
			s.over(time.Millisecond)
		}
		return n
	}
	for want := 1; want <= 1<<maxMistrust; want *= 2 {
		if got := row(); got != want {
			t.Errorf("%d operations until calls wait, want %d", got, want)
		}
		s.larger()
	}
	if s.larger(); row() != 1<<maxMistrust {
		t.Error("the mistrust has no bound")
	}
}

// TestShown: an operation by a plan of before ends with its data: nothing is said before, and the coordinator hears of it a little later. If the last rank comes late,
// so that all others have called and wait, that is so as well. An operation in which hosts do not get bytes of all others waits for the word.
func TestShown(t *testing.T) {
	for _, empty := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const takes, late = 50 * time.Millisecond, time.Second
			more := usual
			ranks := []string{"a", "b", "c"}
			if empty {
				more = func(rank int) int { return -(20 + 10*rank) * (rank % 2) } // b gives nothing
			}
			errs, f := repeat(t, ranks, func(f *repeater, r *Rank, rank int) error {
				f.mu.Lock()
				f.hold = takes
				f.mu.Unlock()
				asked := func() int {
					f.mu.Lock()
					defer f.mu.Unlock()
					return len(f.asked)
				}
				for op := range 4 {
					if op == 3 && rank == 2 {
						time.Sleep(late)
					}
					begun := time.Now()
					if err := f.gather(r, op, rank, more); err != nil {
						return err
					}
					took := time.Since(begun)
					if want := takes; op > 0 && (rank == 2 || op < 3) && took != want {
						return fmt.Errorf("operation %d took %v, want %v", op, took, want)
					}
					if n := asked(); op > 0 && n > op != empty {
						return fmt.Errorf("when operation %d ended the planner had been asked %d times", op, n)
					}
					time.Sleep(late)
					if n := asked(); n != op+1 {
						return fmt.Errorf("after operation %d the planner has been asked %d times", op, n)
					}
				}
				return nil
			})
			none(t, errs)
			if f.foreseen != 3 {
				t.Errorf("%d operations ended as they had begun, want 3", f.foreseen)
			}
		})
	}
}

// TestForgottenPlan: hosts begin by a plan that their coordinator does not know any more, or has just taken back. The operation ends as it began, and the plan stands
// again if the planner makes the same.
func TestForgottenPlan(t *testing.T) {
	for _, stale := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
				for op := range 4 {
					if rank == 0 && op == 1 {
						s := &f.hosts["a"].shelf
						s.mu.Lock()
						if s.known = nil; stale {
							f.age++
						}
						s.mu.Unlock()
					}
					time.Sleep(time.Second)
					if err := f.gather(r, op, rank, usual); err != nil {
						return err
					}
					time.Sleep(time.Second)
				}
				return nil
			})
			none(t, errs)
			want := 3
			if stale {
				want = 2 // the third is planned
			}
			if f.foreseen != want || len(f.asked) != 4 {
				t.Errorf("stale %v: %d operations ended as they had begun, want %d; the planner was asked %d times", stale, f.foreseen, want, len(f.asked))
			}
		})
	}
}

// TestAlternate: an operation that comes again and again stands also where each second one is never the same. (Calls had to be the same in a row, so that no round of
// gridagent bench with many ranks did, whose ranks tell each other between two operations what they saw.)
func TestAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 20
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			for op := range 2 * rounds {
				more := usual
				if op%2 == 1 {
					more = func(rank int) int { return 100 + op*rank } // rank 0 gives as much each time
				}
				if err := f.gather(r, op, rank, more); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			return nil
		})
		none(t, errs)
		vain := 0
		for op := range uint64(rounds) {
			vain += f.beginnings(2*op + 1)
		}
		if f.foreseen < rounds-2 || vain > 2 {
			t.Errorf("%d of %d operations that were the same ended as they had begun; of the others hosts have begun %d in vain", f.foreseen, rounds, vain)
		}
	})
}

// TestTogether: a barrier that is to return at the same moment does so where the way to one host is long, and another does not wait.
func TestTogether(t *testing.T) {
	for _, together := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const far = 30 * time.Millisecond
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			f.hosts["a"].cfg.Latency = func(h string) time.Duration {
				if h == "c" {
					return far
				}
				return 0
			}
			for rank, err := range f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
				begun := time.Now()
				res, err := r.Do(context.Background(), Call{Collective: Barrier, Wish: Wish{Options: Options{Together: together}}})
				if err != nil {
					return err
				}
				res.Release()
				want := time.Duration(0) // the streams here take no time
				if together && rank != 2 {
					want = far
				}
				if took := time.Since(begun); took != want || res.Report.Algorithm != "barrier" {
					return fmt.Errorf("took %v by %s, want %v", took, res.Report.Algorithm, want)
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("together %v: rank %d: %v", together, rank, err)
				}
			}
		})
	}
}

// TestDoneWaitsForCall: what was done goes with a call that waits, even if it could not wait for so long by itself, and a call does not wait for longer because of it.
func TestDoneWaitsForCall(t *testing.T) {
	now := time.Now()
	word := func(k kind, seq uint64, wait time.Duration) *message {
		return &message{Kind: k, Seq: seq, since: now, until: now.Add(wait)}
	}
	for _, tt := range []struct {
		name  string
		words []*message
		want  time.Duration
	}{
		{"done alone", []*message{word(kindDone, 1, bookPause)}, bookPause},
		{"done and a longer call", []*message{word(kindDone, 1, bookPause), word(kindReady, 2, 2*bookPause)}, 2 * bookPause},
		{"done and a shorter call", []*message{word(kindDone, 1, bookPause), word(kindReady, 2, bookPause/2)}, bookPause / 2},
		{"two calls", []*message{word(kindReady, 1, 2*bookPause), word(kindReady, 2, bookPause)}, bookPause},
		{"a call that is over", []*message{word(kindDone, 1, bookPause), word(kindReady, 2, 3*bookPause), word(kindDone, 2, bookPause)}, bookPause},
	} {
		l := newLull()
		for _, m := range tt.words {
			if l.add(m) {
				t.Errorf("%s: words go at once", tt.name)
			}
		}
		if got := l.due().Sub(now); got != tt.want {
			t.Errorf("%s: due in %v, want in %v", tt.name, got, tt.want)
		}
		l.timer.Stop()
	}
}
