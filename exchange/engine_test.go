package exchange

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f in a bubble: a stream or goroutine left over, and a hang, fail the test.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func oneSite(string) string { return "A" }

func TestRandomPlans(t *testing.T) {
	for seed := range uint64(200) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			const chunk = 64
			p := randomPlan(rng, chunk)
			lanes := 1 + rng.IntN(3)
			near := seed%4 == 1
			g := newFakeGrid(t, p.Hosts, func(c *Config) {
				c.Lanes = func(string) int { return lanes }
				if near {
					c.Site = oneSite
				}
			})
			delays := rand.New(rand.NewPCG(seed, 2))
			if seed%2 == 1 {
				g.units = new(atomic.Int64)
			}
			g.limit = 1 + rng.IntN(2000)
			g.stream = func(_, _ string, s *fakeStream) {
				d := time.Duration(delays.IntN(1000)) * time.Microsecond
				s.pause = func() { time.Sleep(d) }
			}
			j := newJob(t, rng, p, chunk)
			stats, errs := g.run(t.Context(), j)
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Fatalf("seed %d: host %d of %d: %v\n%+v", seed, h, len(errs), err, p)
				}
				checkStats(t, seed, j, h, stats[h])
			}
			g.accepts.Wait()
		})
	}
}

// checkStats compares the counters with what the part must have moved when no stream broke.
func checkStats(t *testing.T, seed uint64, j *job, h int, st Stats) {
	t.Helper()
	var sent, received, again int64
	for _, p := range st.Peers {
		sent += p.Sent
		received += p.Received
		again += p.Resent + p.Duplicates + int64(p.Broken)
	}
	var out int64
	for _, s := range j.parts[h].Sends {
		for _, b := range s.Blocks {
			out += j.parts[h].Blocks[b].Size
		}
	}
	if in := j.parts[h].Incoming(); sent != out || received != in || again != 0 || j.data[h].Progress.Received.Load() != in {
		t.Fatalf("seed %d: host %d sent %d of %d, received %d of %d, %d again", seed, h, sent, out, received, in, again)
	}
	for _, ts := range st.Transfers {
		if ts.End < ts.Start || ts.End > st.Elapsed {
			t.Fatalf("seed %d: transfer %d ran from %v to %v of %v", seed, ts.ID, ts.Start, ts.End, st.Elapsed)
		}
	}
}

// TestSynchronisation checks that no transfer starts before those that it comes after
// are complete at their receivers, or, where the sender tells or the part has a lead, have begun; and that
// the sender does not wait for the receiver before it tells, nor a receiver for what the lead leaves out.
func TestSynchronisation(t *testing.T) {
	edges, early, ahead := 0, 0, 0
	for seed := range uint64(60) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			const chunk = 64
			p := randomPlan(rng, chunk)
			synchronise(rng, p, len(p.Transfers))
			g := newFakeGrid(t, p.Hosts, nil)
			g.stream = func(_, _ string, s *fakeStream) { s.pause = func() { time.Sleep(time.Millisecond) } }
			g.lag = func() { time.Sleep(time.Duration(seed%3*3) * time.Millisecond) }
			j := newJob(t, rng, p, chunk)
			stats, errs := g.run(t.Context(), j)
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			g.accepts.Wait()
			ended := make(map[int]time.Duration) // at the receiver; all parts start at the same virtual time
			began := make(map[int]time.Duration) // at the sender
			for h, st := range stats {
				for _, ts := range st.Transfers[:len(j.parts[h].Sends)] {
					began[ts.ID] = ts.Start
				}
				for _, ts := range st.Transfers[len(j.parts[h].Sends):] {
					ended[ts.ID] = ts.End
				}
			}
			for h, st := range stats {
				for i, s := range j.parts[h].Sends {
					for _, w := range s.Waits {
						edges++
						after := ended[w.Transfer]
						switch {
						case w.Left:
							if st.Transfers[i].Start < after {
								early++
							}
							after = began[w.Transfer]
						case j.parts[h].Lead > 0:
							if st.Transfers[i].Start < after {
								ahead++
							}
							after = began[w.Transfer]
						}
						if st.Transfers[i].Start < after {
							t.Fatalf("seed %d: transfer %d started at %v, before transfer %d at %v", seed, s.ID, st.Transfers[i].Start, w.Transfer, after)
						}
					}
				}
			}
		})
	}
	if edges < 500 || early < 10 || ahead < 5 {
		t.Errorf("only %d synchronisations were tested, %d of senders before the arrival, %d ahead of it", edges, early, ahead)
	}
}

// TestBrokenLanes breaks streams after a random number of writes, in either direction.
func TestBrokenLanes(t *testing.T) {
	var broken, resent, duplicates int64
	for seed := range uint64(150) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			const chunk = 64
			p := randomPlan(rng, chunk)
			lanes := 1 + rng.IntN(3)
			near := seed%4 == 1
			g := newFakeGrid(t, p.Hosts, func(c *Config) {
				c.Lanes = func(string) int { return lanes }
				if near {
					c.Site = oneSite
				}
			})
			if seed%2 == 1 {
				g.units = new(atomic.Int64)
			}
			g.limit = 1 + rng.IntN(2000)
			faults := rand.New(rand.NewPCG(seed, 5))
			g.stream = func(_, _ string, s *fakeStream) {
				if faults.IntN(3) == 0 {
					return
				}
				left := faults.IntN(40)
				if g.units != nil {
					left /= 4 // there are fewer writes
				}
				d := time.Duration(faults.IntN(1000)) * time.Microsecond
				s.pause = func() {
					time.Sleep(d)
					if left--; left < 0 {
						s.Abort()
					}
				}
				if faults.IntN(2) == 0 { // at an instant, mid-write and mid-read
					time.AfterFunc(time.Duration(faults.IntN(20000))*time.Microsecond, s.Abort)
				}
			}
			j := newJob(t, rng, p, chunk)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			stats, errs := g.run(ctx, j)
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Fatalf("seed %d: host %d: %v\n%+v", seed, h, err, p)
				}
				for _, ps := range stats[h].Peers {
					broken += int64(ps.Broken)
					resent += ps.Resent
					duplicates += ps.Duplicates
				}
				if got, want := j.data[h].Progress.Received.Load(), j.parts[h].Incoming(); got != want {
					t.Fatalf("seed %d: host %d: progress says %d bytes of %d", seed, h, got, want)
				}
			}
			g.accepts.Wait()
		})
	}
	t.Logf("%d streams broken, %d bytes sent again, %d arrived twice", broken, resent, duplicates)
	if broken < 500 || resent == 0 {
		t.Errorf("%d streams broken, %d bytes sent again: the faults did not bite", broken, resent)
	}
}

func TestCorruptChunk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 6))
		p := ringPlan(4)
		p.MessageBytes = 20000
		g := newFakeGrid(t, p.Hosts, nil)
		done := false
		g.stream = func(from, _ string, s *fakeStream) {
			if from != "host2" {
				return
			}
			s.tamper = func(b []byte) []byte {
				if done || len(b) < 4096 {
					return b
				}
				done = true
				b = append([]byte(nil), b...)
				b[100] ^= 4
				return b
			}
		}
		j := newJob(t, rng, p, 8192)
		for h := range j.data { // one piece per block, so that each chunk is one write
			part, result := j.parts[h], make([]byte, 4*20000)
			j.data[h] = Data{Result: result, Layout: func(b Block) []Segment { return []Segment{{int64(b.Origin) * 20000, 20000}} }}
			copy(result[h*20000:], content(p, part.Blocks[h].Block))
		}
		_, errs := g.run(t.Context(), j)
		g.accepts.Wait()
		var sum *ChecksumError
		if !errors.As(errs[3], &sum) || sum.From != "host2" || sum.Origin != "host2" {
			t.Errorf("host 3, whose neighbour's bytes were corrupted: %v", errs[3])
		}
		for h, err := range errs {
			var te *TransferError
			if !errors.As(err, &te) {
				t.Errorf("host %d: %v, want a TransferError", h, err)
			}
		}
	})
}

func TestCancel(t *testing.T) {
	cause := errors.New("rank 3 on host1 is lost")
	for seed := range uint64(40) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			p := ringPlan(5)
			p.MessageBytes = 50000
			g := newFakeGrid(t, p.Hosts, nil)
			g.stream = func(_, _ string, s *fakeStream) { s.pause = func() { time.Sleep(time.Millisecond) } }
			j := newJob(t, rng, p, 100)
			ctx, cancel := context.WithCancelCause(t.Context())
			at := time.Duration(rng.IntN(300)) * time.Millisecond
			time.AfterFunc(at, func() { cancel(cause) })
			began := time.Now()
			_, errs := g.run(ctx, j)
			if d := time.Since(began); d > at+2*grace {
				t.Errorf("seed %d: cancelled after %v, returned after %v", seed, at, d)
			}
			for h, err := range errs {
				var peer *PeerError
				if !errors.Is(err, cause) && !(errors.As(err, &peer) && strings.Contains(peer.Reason, cause.Error())) {
					t.Errorf("seed %d: host %d: %v", seed, h, err)
				}
			}
			g.accepts.Wait()
		})
	}
}

// TestOneFails cancels one host only: its neighbours are told and give its reason.
func TestOneFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 8))
		p := ringPlan(4)
		p.MessageBytes = 100000
		g := newFakeGrid(t, p.Hosts, nil)
		g.stream = func(_, _ string, s *fakeStream) { s.pause = func() { time.Sleep(time.Millisecond) } }
		j := newJob(t, rng, p, 1000)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("disk full")) })
		errs := make(chan error, 4)
		for h := range j.parts {
			c := t.Context()
			if h == 2 {
				c = ctx
			}
			go func() {
				_, err := g.engines[p.Hosts[h]].Run(c, j.parts[h], j.data[h])
				errs <- err
			}()
		}
		for range j.parts {
			err := <-errs
			var pe *PeerError
			if errors.As(err, &pe) && pe.Reason != "host2: disk full" || err == nil || !strings.Contains(err.Error(), "disk full") {
				t.Errorf("got %v, want the reason of host2 and its name", err)
			}
		}
		if d := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); d > time.Second {
			t.Errorf("the last host learned of it after %v", d)
		}
		g.accepts.Wait()
	})
}

// TestLateStart starts one host long after the others.
func TestLateStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 9))
		p := ringPlan(3)
		p.MessageBytes = 10000
		g := newFakeGrid(t, p.Hosts, nil)
		j := newJob(t, rng, p, 512)
		errs := make(chan error, 3)
		for h := range j.parts {
			go func() {
				time.Sleep(time.Duration(h) * 100 * time.Second) // over WaitStart: streams are turned away and come back
				_, err := g.engines[p.Hosts[h]].Run(t.Context(), j.parts[h], j.data[h])
				errs <- err
			}()
		}
		for range j.parts {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for h := range j.parts {
			if err := j.check(h); err != nil {
				t.Error(err)
			}
		}
		g.accepts.Wait()
	})
}

// TestOutcomesAreKept: who comes back to an exchange minutes after its end is told how it ended, however many have ended since then, up to a bound; an idle host keeps some for
// longer.
func TestOutcomesAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newFakeGrid(t, hostNames(2), nil)
		e := g.engines["host1"]
		n := 0
		end := func() (id ID) {
			n++
			binary.LittleEndian.PutUint32(id[:], uint32(n))
			e.Refuse(id, fmt.Sprintf("end %d", n))
			return id
		}
		knows := func(id ID) bool {
			s, err := g.open(t.Context(), "host0", "host1")
			if err != nil {
				t.Fatal(err)
			}
			s.Write(header{id: id}.appendTo(nil))
			s.SetReadDeadline(time.Now().Add(time.Second))
			r := newFrameReader(s)
			var f frame
			err = r.next(&f)
			s.Abort()
			time.Sleep(time.Minute) // what waits for an exchange gives up
			g.accepts.Wait()
			return err == nil && f.kind == frameFail
		}
		first := end()
		for range 10 * keptOutcomes {
			end()
		}
		time.Sleep(2 * time.Minute)
		if !knows(first) {
			t.Error("forgotten after two minutes")
		}
		time.Sleep(keptFor)
		var last ID
		for range keptOutcomes {
			last = end()
		}
		if knows(first) {
			t.Errorf("not forgotten after %v, and %d others", keptFor, 11*keptOutcomes)
		}
		if len(e.outcomes) != keptOutcomes || len(e.order) != keptOutcomes {
			t.Errorf("%d are kept, in an order of %d, want %d", len(e.outcomes), len(e.order), keptOutcomes)
		}
		time.Sleep(10 * keptFor)
		if end(); !knows(last) {
			t.Error("an idle host has forgotten one of the last")
		}
		for range 2 * mostOutcomes {
			end()
		}
		if len(e.outcomes) != mostOutcomes || len(e.order) != mostOutcomes || knows(last) {
			t.Errorf("%d are kept, in an order of %d, want %d", len(e.outcomes), len(e.order), mostOutcomes)
		}
	})
}
