package group

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A repeater is a job whose ranks do several operations, and the test sees who has begun what.
type repeater struct {
	*fabric
	ranks []string
}

// bytesOf is what rank contributes to the allgather that is called op, of its usual size and more.
func bytesOf(op, rank, more int) []byte {
	b := make([]byte, 20+10*rank+more)
	for i := range b {
		b[i] = byte(op*31 + rank*7 + i)
	}
	return b
}

// gather does the allgather op, to which rank q gives more than it usually does.
func (f *repeater) gather(r *Rank, op, rank int, more func(rank int) int) error {
	var want []byte
	for q := range f.ranks {
		want = append(want, bytesOf(op, q, more(q))...)
	}
	res, err := r.Allgather(context.Background(), Bytes(bytesOf(op, rank, more(rank))), Wish{})
	if err != nil {
		return err
	}
	defer res.Release()
	if !bytes.Equal(res.Data, want) {
		return fmt.Errorf("operation %d: wrong bytes", op)
	}
	return nil
}

func usual(int) int { return 0 }

// beginnings counts the hosts that have begun operation seq before the coordinator's word, in any group.
func (f *repeater) beginnings(seq uint64) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for part, hosts := range f.begun {
		if s := binary.BigEndian.Uint64([]byte(part)[16:24]); s>>63 == 1 && s&0xffff == seq {
			n += hosts
		}
	}
	return n
}

// repeat runs do at every rank in a bubble and returns the errors. Nothing may be left then.
func repeat(t *testing.T, ranks []string, do func(f *repeater, r *Rank, rank int) error) (errs []error, f *repeater) {
	t.Helper()
	hosts := slices.Compact(slices.Sorted(slices.Values(ranks)))
	fab, stop := newFabric(t, hosts...)
	f = &repeater{fab, ranks}
	errs = f.each("job", ranks, func(r *Rank, rank int) error { return do(f, r, rank) })
	time.Sleep(time.Second)
	stop()
	if f.live != 0 {
		t.Errorf("%d buffers are left", f.live)
	}
	return errs, f
}

func none(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

var four = []string{"a", "b", "c", "b"}

// TestRepeatedBegins: what was planned once begins at once, at each host whose ranks have called, and ends when all have. A new group
// of the same hosts knows it as well.
func TestRepeatedBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			if err := f.gather(r, 0, rank, usual); err != nil {
				return err
			}
			time.Sleep(time.Second)
			if n := f.beginnings(0); n != 0 {
				return fmt.Errorf("%d hosts have begun the first operation before the word", n)
			}
			begun := time.Now()
			if rank == 3 {
				time.Sleep(5 * time.Second)
				if n := f.beginnings(1); n != 2 { // host b has another rank, which has called
					return fmt.Errorf("%d hosts have begun while a rank of a third was late, want 2", n)
				}
				time.Sleep(5 * time.Second)
				begun = time.Now()
			}
			if err := f.gather(r, 1, rank, usual); err != nil {
				return err
			}
			if took := time.Since(begun); rank == 3 && took > time.Second || rank != 3 && took < 10*time.Second {
				return fmt.Errorf("operation of a late rank took %v", took)
			}
			return nil
		})
		none(t, errs)
		if f.foreseen != 1 || len(f.asked) != 2 {
			t.Errorf("%d operations ended as they had begun, the planner was asked %d times; want 1 and 2", f.foreseen, len(f.asked))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		fab, stop := newFabric(t, "a", "b", "c")
		f := &repeater{fab, four}
		for job := range 3 {
			none(t, f.each(fmt.Sprint(job), four, func(r *Rank, rank int) error { return f.gather(r, job, rank, usual) }))
		}
		stop()
		if f.foreseen != 2 {
			t.Errorf("of three jobs %d began at once, want 2", f.foreseen)
		}
	})
}

// TestShortWord: without a word of the plan in what the coordinator says, each rank reports of it what it was told when it was made. (The word to go on went to each host with all of
// that, 330 bytes for one of 150: of 256 bytes a pair between three hosts, over 1.8 Mbit/s, that took 2 ms of 9.)
func TestShortWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			for op := range 2 {
				res, err := r.Allgather(context.Background(), Bytes(bytesOf(op, rank, 0)), Wish{})
				if err != nil {
					return err
				}
				told := res.Report.Planned
				res.Release()
				want := Planned{Algorithm: "test", Cost: time.Millisecond}
				if op == 1 {
					want = Planned{Algorithm: "test", Cached: true}
				}
				if told != want {
					return fmt.Errorf("operation %d: told %+v of its plan, want %+v", op, told, want)
				}
				time.Sleep(time.Second)
			}
			return nil
		})
		none(t, errs)
		if f.foreseen != 1 {
			t.Errorf("%d operations went on by the word, want 1", f.foreseen)
		}
	})
}

// TestBegunInVain: ranks that want something else than before get it, and those that had begun too.
func TestBegunInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			for op := range 12 {
				more := usual
				if op%2 == 1 { // one rank gives more each other time
					more = func(rank int) int { return op * (rank / 2 % 2) }
				}
				if rank == 2 {
					time.Sleep(time.Second)
				}
				if err := f.gather(r, op, rank, more); err != nil {
					return err
				}
			}
			return nil
		})
		none(t, errs)
		vain := 0
		for op := range uint64(12) {
			vain += f.beginnings(op)
		}
		if vain == 0 || vain > 4 || f.refused == 0 {
			t.Errorf("hosts have begun %d times in vain, want once or so and not again; %d turned that away", vain, f.refused)
		}
	})
}

// TestPlanIsRecalled: when the planner would do something else, the operation under way ends as it began and the next
// is planned.
func TestPlanIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early []int
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			for op := range 5 {
				time.Sleep(time.Second)
				if rank == 0 && op == 2 {
					f.mu.Lock()
					f.age++
					f.stands++
					f.mu.Unlock()
				}
				time.Sleep(time.Second)
				if err := f.gather(r, op, rank, usual); err != nil {
					return err
				}
				if rank == 0 {
					early = append(early, f.beginnings(uint64(op)))
				}
			}
			return nil
		})
		none(t, errs)
		if want := []int{0, 3, 3, 0, 3}; !slices.Equal(early, want) || f.foreseen != 3 {
			t.Errorf("so many hosts began before the word: %v, want %v; %d ended so, want 3", early, want, f.foreseen)
		}
	})
}

// TestSlowPlanner: operations that go on by a standing plan do not queue for a planner that waits, for the map say: it is asked once, and not
// once by each.
func TestSlowPlanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ops = 1200 // more than a coordinator has under way
		errs, f := repeat(t, []string{"a", "b"}, func(f *repeater, r *Rank, rank int) error {
			for op := range ops {
				if rank == 0 && op == 1 {
					f.mu.Lock()
					f.ponders = time.Hour
					f.mu.Unlock()
				}
				if err := f.gather(r, op, rank, usual); err != nil {
					return fmt.Errorf("operation %d: %w", op, err)
				}
			}
			return nil
		})
		none(t, errs)
		if len(f.asked) != 2 {
			t.Errorf("the planner was asked %d times by %d operations, want 2", len(f.asked), ops)
		}
	})
}

// TestStaleIsRecalled: a plan that the planner would not make again is taken back before anybody begins by it.
func TestStaleIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			for op := range 4 {
				if err := f.gather(r, op, rank, usual); err != nil {
					return err
				}
				time.Sleep(reviewPause * 3 / 2)
				if rank == 0 && op == 1 {
					f.mu.Lock()
					f.age++
					f.mu.Unlock()
				}
				time.Sleep(reviewPause * 3 / 2)
				if rank == 0 && op == 1 {
					f.mu.Lock()
					f.stands = f.age
					f.mu.Unlock()
				}
			}
			return nil
		})
		none(t, errs)
		if f.beginnings(1) != 3 || f.beginnings(2) != 0 || f.beginnings(3) != 3 {
			t.Errorf("so many hosts began the second, third and fourth before the word: %d, %d, %d; want 3, 0 and 3", f.beginnings(1), f.beginnings(2), f.beginnings(3))
		}
	})
}

// TestOldPlanIsNotUsed: after a long pause the operation is planned.
func TestOldPlanIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
			for op, pause := range []time.Duration{0, standingTime - time.Second, standingTime - time.Second, standingTime + time.Second} {
				time.Sleep(pause)
				if err := f.gather(r, op, rank, usual); err != nil {
					return err
				}
			}
			return nil
		})
		none(t, errs)
		if f.foreseen != 2 {
			t.Errorf("%d operations ended as they had begun, want 2", f.foreseen)
		}
	})
}

// TestLostWhileUnsure: a rank that dies, cancels or leaves while others have begun ends the group for all, with one error.
func TestLostWhileUnsure(t *testing.T) {
	for _, how := range []string{"dies", "cancels", "leaves", "stops"} {
		synctest.Test(t, func(t *testing.T) {
			errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
				if err := f.gather(r, 0, rank, usual); err != nil {
					return err
				}
				if rank != 2 {
					return f.gather(r, 1, rank, usual)
				}
				time.Sleep(3 * time.Second)
				if n := f.beginnings(1); n != 2 {
					return fmt.Errorf("%d hosts have begun, want 2", n)
				}
				switch how {
				case "dies":
					f.kill("c")
				case "cancels":
					r.Cancel(errors.New("enough"))
				case "stops":
					f.stopHost("c")
				}
				return nil
			})
			for rank, err := range errs {
				var fail *Failure
				if rank == 2 {
					if err != nil {
						t.Errorf("%s: %v", how, err)
					}
					continue
				}
				if !errors.As(err, &fail) || err.Error() != errs[0].Error() {
					t.Errorf("%s: rank %d: %v, rank 0: %v; want one failure", how, rank, err, errs[0])
				}
			}
			if f.foreseen != 0 {
				t.Errorf("%s: an operation has ended well", how)
			}
		})
	}
}

// TestErrorWhileUnsure: what goes wrong in an exchange that was begun in vain is nobody's concern; in one that counts it fails the group.
func TestErrorWhileUnsure(t *testing.T) {
	for _, vain := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			errs, _ := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
				if err := f.gather(r, 0, rank, usual); err != nil {
					return err
				}
				f.mu.Lock()
				f.fail = func(x Exchange) error {
					if x.Sure == nil {
						return nil
					}
					return errors.New("a peer has reset it")
				}
				f.mu.Unlock()
				more := usual
				if vain {
					more = func(rank int) int { return rank / 2 % 2 }
				}
				if rank == 2 {
					time.Sleep(time.Second)
				}
				return f.gather(r, 1, rank, more)
			})
			if vain {
				none(t, errs)
				return
			}
			for rank, err := range errs {
				if err == nil || err.Error() != errs[0].Error() {
					t.Errorf("rank %d: %v, rank 0: %v; want one failure", rank, err, errs[0])
				}
			}
		})
	}
}

// TestNameComesAgain: an operation whose name on the lanes was another's that a host still remembers is planned as ever, and the next begins at
// once again.
func TestNameComesAgain(t *testing.T) {
	for _, who := range []string{"abc", "b"} {
		synctest.Test(t, func(t *testing.T) {
			early := func(seq uint64) bool { return seq>>63 == 1 && seq&0xffff == 2 }
			errs, f := repeat(t, four, func(f *repeater, r *Rank, rank int) error {
				f.mu.Lock()
				f.knows = func(host string, seq uint64) bool { return early(seq) && strings.Contains(who, host) }
				f.fail = func(x Exchange) error {
					if early(binary.BigEndian.Uint64(x.Part[16:24])) {
						return errors.New("it has already been started here")
					}
					return nil
				}
				f.mu.Unlock()
				for op := range 6 {
					if err := f.gather(r, op, rank, usual); err != nil {
						return err
					}
				}
				return nil
			})
			none(t, errs)
			if n := f.beginnings(2); n != 3-len(who) {
				t.Errorf("%d hosts have begun by a name that %d know, want %d", n, len(who), 3-len(who))
			}
			if f.foreseen != 4 {
				t.Errorf("%d operations ended as they had begun, want all but the first and the third", f.foreseen)
			}
		})
	}
}

// TestRepeatedBroadcast: the hosts of other ranks than the root's begin by the plan of a large broadcast, and get a small one all the same.
func TestRepeatedBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fab, stop := newFabric(t, "a", "b", "c")
		fab.tree = func(hosts []string) Tree { return Tree{Leaders: make([]int, len(hosts)), Limit: 64} }
		none(t, fab.each("job", four, func(r *Rank, rank int) error {
			for i, n := range []int64{200, 200, 200, 5, 200} {
				call := Call{Collective: Broadcast, Root: 2}
				if rank == 2 {
					time.Sleep(time.Second)
					call.In = Bytes(fill(i, 0, n))
				}
				res, err := r.Do(context.Background(), call)
				if err != nil {
					return err
				}
				if small := res.Report.Algorithm == "eager"; !bytes.Equal(res.Data, fill(i, 0, n)) || small != (n == 5) {
					return fmt.Errorf("broadcast %d: wrong bytes, or by %s", i, res.Report.Algorithm)
				}
				res.Release()
			}
			return nil
		}))
		time.Sleep(time.Second)
		stop()
		if fab.foreseen != 3 || fab.live != 0 {
			t.Errorf("%d broadcasts ended as they had begun, want 3; %d buffers are left", fab.foreseen, fab.live)
		}
	})
}

// TestRandomRepeats: sequences of allgathers, alltoalls, broadcasts and barriers of a few sizes, with ranks that come at different times and
// with several operations under way, end with the right bytes.
func TestRandomRepeats(t *testing.T) {
	foreseen, vain := 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			ranks := make([]string, 2+rng.IntN(6))
			for i := range ranks {
				ranks[i] = string(rune('a' + rng.IntN(min(len(ranks), 7))))
			}
			type step struct {
				collective plan.Collective
				root       int
				sizes      [][]int64 // by rank, and in an alltoall by rank
			}
			some := []int64{0, 1, 5, 200}
			if seed%6 == 0 {
				some[0] = 2 // all give something: plans of alltoalls are offered as well
			}
			sizesOf := func() [][]int64 {
				all := make([][]int64, len(ranks))
				for i := range all {
					all[i] = make([]int64, len(ranks))
					for j := range all[i] {
						all[i][j] = some[rng.IntN(4)]
					}
				}
				return all
			}
			kinds := make([]step, 3)
			for i := range kinds {
				kinds[i] = step{[]plan.Collective{plan.Allgather, plan.Alltoall, Broadcast, plan.Allgather}[rng.IntN(4)], rng.IntN(len(ranks)), sizesOf()}
			}
			steps := make([]step, 16)
			for i := range steps {
				steps[i] = kinds[rng.IntN(1+i/4*2/3)]
				if rng.IntN(8) == 0 { // one rank wants something else
					steps[i].sizes = slices.Clone(steps[i].sizes)
					steps[i].sizes[rng.IntN(len(ranks))] = sizesOf()[0]
				}
				if rng.IntN(12) == 0 {
					steps[i] = step{collective: Barrier}
				}
			}
			withTree, deep := rng.IntN(3) == 0, rng.IntN(2) == 0
			fab, stop := newFabric(t, slices.Compact(slices.Sorted(slices.Values(ranks)))...)
			if withTree {
				fab.tree = func(hosts []string) Tree { return Tree{Leaders: make([]int, len(hosts)), Limit: 64} }
			}
			if seed%3 == 0 { // two sites, where plans of small operations are offered
				fab.tree = func(hosts []string) Tree {
					leaders := make([]int, len(hosts))
					for i := len(hosts) / 2; i < len(hosts); i++ {
						leaders[i] = len(hosts) / 2
					}
					return Tree{Leaders: leaders, Limit: 1000, Across: int64(seed % 4 * 500)}
				}
				fab.late, fab.predicts = 20*time.Millisecond, time.Millisecond
			}
			fab.hold = time.Duration(rng.IntN(300)) * time.Millisecond
			errs := fab.each("job", ranks, func(r *Rank, rank int) error {
				rng := rand.New(rand.NewPCG(seed, uint64(rank)))
				var wg sync.WaitGroup
				var mu sync.Mutex
				var first error
				for i, s := range steps {
					if rng.IntN(3) == 0 {
						time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
					}
					call := Call{Collective: s.collective, Root: s.root, In: Bytes(nil)}
					var want []byte
					switch s.collective {
					case plan.Allgather:
						call.In = Bytes(fill(i, rank, s.sizes[rank][0]))
						for q := range ranks {
							want = append(want, fill(i, q, s.sizes[q][0])...)
						}
					case plan.Alltoall:
						call.Sizes = s.sizes[rank]
						var in []byte
						for q := range ranks {
							in = append(in, fill(i, rank*16+q, s.sizes[rank][q])...)
							want = append(want, fill(i, q*16+rank, s.sizes[q][rank])...)
						}
						call.In = Bytes(in)
					case Broadcast:
						want = fill(i, s.root, s.sizes[s.root][0])
						if rank == s.root {
							call.In = Bytes(want)
						}
					}
					o, err := r.Start(call)
					if err != nil {
						return err
					}
					wait := func() {
						res, err := o.Wait(context.Background())
						if err == nil && !bytes.Equal(res.Data, want) {
							err = fmt.Errorf("operation %d (%s): wrong bytes", i, s.collective)
						}
						if err == nil {
							res.Release()
							o.Drop()
						}
						mu.Lock()
						defer mu.Unlock()
						if first == nil {
							first = err
						}
					}
					if deep && i%4 != 3 {
						wg.Go(wait)
						continue
					}
					wait()
					wg.Wait()
				}
				wg.Wait()
				return first
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d of %v: %v", seed, i, ranks, err)
				}
			}
			time.Sleep(time.Second)
			stop()
			if fab.live != 0 {
				t.Errorf("seed %d: %d buffers are left", seed, fab.live)
			}
			foreseen += fab.foreseen
			for part := range fab.begun {
				if part[16] >= 128 {
					vain++
				}
			}
		})
	}
	vain -= foreseen
	if t.Logf("%d operations ended as they had begun, %d were begun in vain", foreseen, vain); foreseen < 60 || vain < 10 {
		t.Error("too few to mean anything")
	}
}

// fill is n bytes of operation op that tell who they are of.
func fill(op, who int, n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(op*37 + who*11 + i)
	}
	return b
}
