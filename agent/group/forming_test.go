package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// arrive joins the ranks of job that come, rank r on the host hosts[r] ("" never comes)
// with the given options, and returns what became of each, and when.
func (f *fabric) arrive(job string, hosts []string, opts func(rank int) JoinOptions) (errs []error, took []time.Duration) {
	errs, took = make([]error, len(hosts)), make([]time.Duration, len(hosts))
	begun := time.Now()
	var wg sync.WaitGroup
	for r, host := range hosts {
		if host == "" {
			continue
		}
		wg.Go(func() {
			rank, err := f.hosts[host].Join(context.Background(), job, r, len(hosts), opts(r))
			errs[r], took[r] = err, time.Since(begun)
			if err == nil {
				rank.Leave("")
			}
		})
	}
	wg.Wait()
	return errs, took
}

func TestMissingRanksEndTheWait(t *testing.T) {
	const text = `ranks 2, 5 and 7 have not joined job "j" (3 of 8 missing) in the 10m0s that rank 0 on host a has waited; ranks 0, 1, 3, 4 and 6 have`
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		hosts := []string{"a", "b", "", "a", "c", "", "c", ""}
		var mu sync.Mutex
		told := make(map[int]string)
		errs, took := f.arrive("j", hosts, func(r int) JoinOptions {
			time.Sleep(time.Duration(r) * time.Second) // rank 0 comes first
			return JoinOptions{Limit: 10 * time.Minute, Waiting: func(present int, missing string) {
				mu.Lock()
				defer mu.Unlock()
				told[r] = fmt.Sprint(present, " without ", missing)
			}}
		})
		for r, err := range errs {
			if hosts[r] == "" {
				continue
			}
			wantFailure(t, err, Failure{Kind: NotFormed, Rank: 2, Cause: text})
			if d := took[r]; d < 10*time.Minute || d > 10*time.Minute+time.Second {
				t.Errorf("rank %d waited %v", r, d)
			}
			if told[r] != "5 without 2,5,7" {
				t.Errorf("rank %d was told last: %q", r, told[r])
			}
		}
		// The least patient decides for all, and nothing of the job is left.
		errs, took = f.arrive("j", hosts, func(r int) JoinOptions {
			return JoinOptions{Limit: []time.Duration{0, 0, 0, time.Minute, 3 * time.Second, 0, time.Hour, 0}[r]}
		})
		for r, err := range errs {
			if hosts[r] != "" {
				wantFailure(t, err, Failure{Kind: NotFormed, Rank: 2, Cause: "in the 3s that rank 4 on host c has waited"})
				if took[r] > 4*time.Second {
					t.Errorf("rank %d waited %v", r, took[r])
				}
			}
		}
		synctest.Wait() // for those that tidy up
		for name, g := range f.hosts {
			if len(g.dir.jobs)+len(g.claimed) > 0 {
				t.Errorf("%s keeps %d jobs and %d claims", name, len(g.dir.jobs), len(g.claimed))
			}
		}
	})
}

// The time of a rank that has given up does not end the wait of the others, and theirs
// still does.
func TestLimitGoesWithItsRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			f.hosts["b"].Join(ctx, "j", 1, 3, JoinOptions{Limit: 10 * time.Second})
		}()
		errs, took := f.arrive("j", []string{"a", "", ""}, func(int) JoinOptions { return JoinOptions{Limit: time.Minute} })
		wantFailure(t, errs[0], Failure{Kind: NotFormed, Rank: 1, Cause: "ranks 1 and 2 have not joined"})
		if took[0] < time.Minute {
			t.Errorf("rank 0 waited %v", took[0])
		}
	})
}

// The failure names what a rank was given, though a part of it went by before its directory was reached.
func TestLimitAsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		at := directoryHost("j", []string{"a", "b"})
		from := map[string]string{"a": "b", "b": "a"}[at]
		f.cut[at] = true
		go func() {
			time.Sleep(20*time.Second + 3*time.Millisecond)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.cut[at] = false
		}()
		errs, took := f.arrive("j", []string{from, ""}, func(int) JoinOptions { return JoinOptions{Limit: time.Minute} })
		wantFailure(t, errs[0], Failure{Kind: NotFormed, Rank: 1, Cause: "in the 1m0s that rank 0 on host " + from + " has waited"})
		if took[0] < time.Minute || took[0] > time.Minute+time.Second {
			t.Errorf("rank 0 waited %v", took[0])
		}
	})
	// What a peer says is added up: the sum must be a time.
	d := directory{jobs: make(map[string]*forming)}
	for _, m := range []message{{Limit: -1}, {Waited: -1}, {Limit: math.MaxInt64, Waited: 1}} {
		m.Job, m.Ranks = "j", 2
		here, there := pipe()
		go d.serve("b", m, there)
		if got, err := here.Recv(); err != nil || got.Kind != kindRefused || !strings.Contains(got.Failure.Cause, "malformed") {
			t.Errorf("limit %d, waited %d: %+v, %v", m.Limit, m.Waited, got, err)
		}
		here.Abort()
	}
}

// Without limit a rank waits on, and it is let in when the last one comes.
func TestNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		errs, took := f.arrive("j", []string{"a", "b"}, func(r int) JoinOptions {
			time.Sleep(time.Duration(r) * 5 * time.Hour)
			return JoinOptions{}
		})
		for r, err := range errs {
			if err != nil || took[r] < 5*time.Hour {
				t.Errorf("rank %d: %v after %v", r, err, took[r])
			}
		}
	})
}

// A directory that falls silent holds nobody for longer than the limit and a little.
func TestSilentDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		at := directoryHost("j", []string{"a", "b", "c"})
		hosts := []string{"a", "b", "c"}
		for r, h := range hosts {
			if h == at {
				hosts[r] = ""
			}
		}
		go func() {
			time.Sleep(time.Second)
			f.mu.Lock()
			f.mute[at] = true
			f.mu.Unlock()
		}()
		errs, took := f.arrive("j", hosts, func(int) JoinOptions { return JoinOptions{Limit: time.Minute} })
		for r, err := range errs {
			if hosts[r] == "" {
				continue
			}
			wantFailure(t, err, Failure{Kind: NotFormed, Rank: -1, Cause: "host " + at + ", which brings its ranks together, does not answer"})
			if took[r] > time.Minute+formingGrace+time.Second {
				t.Errorf("rank %d waited %v", r, took[r])
			}
		}
	})
}

// A host that registers a rank again has lost its first stream, though the directory has
// not heard of that yet.
func TestRegisterAgain(t *testing.T) {
	d := directory{jobs: make(map[string]*forming), tree: func([]string) *Tree { return nil }}
	m := message{Job: "j", Rank: 1, Ranks: 2}
	old, bad := d.register("a", m)
	if bad != nil {
		t.Fatal(bad)
	}
	again, bad := d.register("a", m)
	if bad != nil {
		t.Fatalf("registered again by the same host: %v", bad)
	}
	d.withdraw("j", old) // the first stream's end arrives
	if _, bad := d.register("b", m); bad == nil || bad.Kind != Mismatch || !strings.Contains(bad.Cause, `host b asks for rank 1 of job "j", which host a holds`) {
		t.Errorf("another host under the same rank: %v", bad)
	}
	if _, bad := d.register("b", message{Job: "j", Rank: 0, Ranks: 2}); bad != nil {
		t.Fatal(bad)
	}
	if got := <-again.out; got.Kind != kindFormed {
		t.Errorf("the rank got %+v", got)
	}
}

// Who asks for a rank that is taken gets the same kind of failure, here or elsewhere, and
// who holds it goes on.
func TestTakenRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		var wg sync.WaitGroup
		wg.Go(func() {
			errs, _ := f.arrive("j", []string{"a", "b"}, func(r int) JoinOptions {
				time.Sleep(time.Duration(r) * time.Minute)
				return JoinOptions{}
			})
			for r, err := range errs {
				if err != nil {
					t.Errorf("rank %d, which was there first: %v", r, err)
				}
			}
		})
		time.Sleep(time.Second)
		for host, holder := range map[string]string{"a": "another client of that host", "b": "host a"} {
			_, err := f.hosts[host].Join(context.Background(), "j", 0, 2, JoinOptions{})
			wantFailure(t, err, Failure{Kind: Mismatch, Rank: 0, Host: host, Cause: "which " + holder + " holds"})
		}
		wg.Wait()
	})
}

// A rank that fails before its operation is named with its words at every other rank,
// whether these wait already or come later; a rank that fails after it harms nobody.
func TestRankFails(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} { // of the others
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			errs := f.each("job", []string{"a", "b", "c", "b"}, func(r *Rank, rank int) error {
				if rank == 3 {
					time.Sleep(time.Second / 2)
					r.Fail("input has 10 bytes,\nand " + strings.Repeat("ö", maxCause))
					return nil
				}
				time.Sleep(late)
				_, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
				return err
			})
			for rank, err := range errs[:3] {
				wantFailure(t, err, Failure{Kind: RankFailed, Rank: 3, Host: "b", Cause: "input has 10 bytes, and ö"})
				if err != nil && (len(err.Error()) > maxCause+100 || !strings.HasPrefix(err.Error(), "rank 3 on host b failed: input has") || !utf8.ValidString(err.Error())) {
					t.Errorf("rank %d reads %q", rank, err)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for _, err := range failures(t, func(_ *fabric, r []*Rank) { go r[4].Fail("no space left") }) {
			wantFailure(t, err, Failure{Kind: RankFailed, Rank: 4, Host: "b", Cause: "no space left"})
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for rank, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			res, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
			if err != nil {
				return err
			}
			if rank == 1 {
				r.Fail("the output cannot be written")
			}
			time.Sleep(time.Second)
			res.Release()
			return context.Cause(r.Done())
		}) {
			if err != nil && rank == 0 {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
}

// shrunk is an input that is shorter than it said.
type shrunk struct{ Bytes }

func (shrunk) CopyTo([]byte) error { return errors.New("input has 10 bytes, and had 20") }

func TestInputThatShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for _, err := range f.each("job", []string{"a", "b", "b"}, func(r *Rank, rank int) error {
			var in Input = Bytes("x")
			if rank == 2 {
				in = shrunk{Bytes("x")}
			}
			_, err := r.Allgather(context.Background(), in, Wish{})
			return err
		}) {
			wantFailure(t, err, Failure{Kind: RankFailed, Rank: 2, Host: "b", Cause: "input has 10 bytes, and had 20"})
		}
	})
}

// An agent that stops is the same failure at its own ranks and at all others, be it the
// coordinator's or not.
func TestStopIsOneFailure(t *testing.T) {
	for _, host := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			for rank, err := range failures(t, func(f *fabric, _ []*Rank) { go f.stopHost(host) }) {
				wantFailure(t, err, *stopped(host))
				if err == nil || err.Error() != "host "+host+" is shutting down: the agent is stopping" {
					t.Errorf("rank %d reads %v", rank, err)
				}
			}
		})
	}
}

func TestDisagreementSaysAuto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for _, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			_, err := r.Allgather(context.Background(), Bytes(nil), Wish{Algorithm: []string{"", "ring"}[rank]})
			return err
		}) {
			if err == nil || !strings.Contains(err.Error(), `"auto"`) || strings.Contains(err.Error(), `""`) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestEarlyConnsAreBounded(t *testing.T) {
	e := newEarlyConns()
	c, _ := pipe()
	kept := 0
	for i := range 3 * maxEarlyPerHost {
		if e.add(ID{byte(i), byte(i >> 8)}, attached{"wild", c, true}) {
			kept++
		}
	}
	if kept != maxEarlyPerHost {
		t.Errorf("kept %d conns of one host, want %d", kept, maxEarlyPerHost)
	}
	if !e.add(ID{1}, attached{"tame", c, true}) || e.add(ID{1}, attached{"tame", c, true}) {
		t.Error("of two conns of a host for one group not just the first was kept")
	}
	for i := range 2 * maxEarly {
		e.add(ID{9}, attached{fmt.Sprint("h", i), c, true})
	}
	if e.total != maxEarly {
		t.Errorf("%d conns in all, want %d", e.total, maxEarly)
	}
	for i := range 3 * maxEarlyPerHost {
		e.take(ID{byte(i), byte(i >> 8)})
	}
	if n := len(e.takeAll()); e.total != 0 || len(e.hosts) != 0 || len(e.groups) != 0 {
		t.Errorf("after all were taken, %d of them at the end: %d in all, %d hosts, %d groups", n, e.total, len(e.hosts), len(e.groups))
	}
}

func TestRankList(t *testing.T) {
	for in, want := range map[string]string{
		"":         " | no rank has",
		"x":        "0 | rank 0 has",
		"xx":       "0,1 | ranks 0 and 1 have",
		".xxx":     "1-3 | ranks 1-3 have",
		"x.xxx.xx": "0,2-4,6,7 | ranks 0, 2-4, 6 and 7 have",
		"..x.x..x": "2,4,7 | ranks 2, 4 and 7 have",
	} {
		l := listRanks(len(in), func(r int) bool { return in[r] == 'x' })
		if got := l.short() + " | " + l.phrase(); got != want || l.count != strings.Count(in, "x") {
			t.Errorf("%s: %q with %d, want %q", in, got, l.count, want)
		}
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		in := make([]bool, 1+rng.IntN(1<<rng.IntN(12)))
		count := 0
		for i := range in {
			if in[i] = rng.IntN(2) == 0; in[i] {
				count++
			}
		}
		l := listRanks(len(in), func(r int) bool { return in[r] })
		listed := 0
		for _, run := range l.runs {
			var first, last int
			if n, _ := fmt.Sscanf(run, "%d-%d", &first, &last); n == 1 {
				last = first
			}
			for r := first; r <= last; r++ {
				if !in[r] {
					t.Fatalf("seed %d: %v lists rank %d", seed, l, r)
				}
				listed++
			}
		}
		if l.count != count || listed+l.more != count || len(l.runs) > maxRuns || len(l.phrase()) > 300 {
			t.Fatalf("seed %d: %d ranks: %+v lists %d", seed, count, l, listed)
		}
	}
}

func FuzzBounded(f *testing.F) {
	f.Add("input /x: no such file\n")
	f.Add(strings.Repeat("\xff\x1b[2Jö", 100))
	f.Fuzz(func(t *testing.T, in string) {
		out := bounded(in)
		if len(out) > maxCause+len("…") || !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\x1b\x00") {
			t.Errorf("%q became %q", in, out)
		}
	})
}

// TestFormedIsSaidAgain: the word that a group has formed may go to a stream that is dead. Whoever asks again with the same token hears it; a
// later Join of the same rank is another one's.
func TestFormedIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directory{jobs: make(map[string]*forming), tree: func([]string) *Tree { return nil }}
		register := func(rank int, token uint64) chan message {
			reg, f := d.register(string(rune('a'+rank)), message{Job: "job", Rank: rank, Ranks: 2, Token: token})
			if f != nil {
				t.Fatal(f)
			}
			return reg.out
		}
		word := func(out chan message) message {
			select {
			case m := <-out:
				return m
			default:
				return message{}
			}
		}
		register(0, 7) // on a stream that is dead
		first := word(register(1, 8))
		if again := word(register(0, 7)); first.Kind != kindFormed || again.Group != first.Group {
			t.Errorf("formed %v, and said again %v", first, again)
		}
		if m := word(register(0, 9)); m.Kind != "" {
			t.Errorf("another Join was told %v", m)
		}
		time.Sleep(attachTimeout)
		synctest.Wait()
		if len(d.formed) > 0 {
			t.Errorf("%d words are kept", len(d.formed))
		}
		for _, f := range d.jobs {
			d.mu.Lock()
			d.forget(f)
			d.mu.Unlock()
		}
	})
}

// A wordless stream loses what comes on it if it bears the registration of rank 2.
type wordless struct {
	Stream
	lost atomic.Bool
}

func (s *wordless) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"k":"register"`)) && bytes.Contains(b, []byte(`"rank":2,`)) {
		s.lost.Store(true)
	}
	return s.Stream.Write(b)
}

func (s *wordless) Read(b []byte) (int, error) {
	for {
		n, err := s.Stream.Read(b)
		if err != nil || !s.lost.Load() {
			return n, err
		}
	}
}

// TestRankGoneAsTheGroupForms: a rank whose client ends before the word that the group has formed reaches it is lost to the others, also where
// another rank of its host has heard the word; and a group whose other ranks want nothing of it ends as well.
func TestRankGoneAsTheGroupForms(t *testing.T) {
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b")
			job := "j"
			for directoryHost(job, []string{"a", "b"}) != "a" {
				job += "j"
			}
			f.opened = func(a, _ *half) Stream { return &wordless{Stream: a} }
			gone, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := f.hosts["b"].Join(gone, job, 2, 3, JoinOptions{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("rank 2: %v", err)
				}
			})
			for rank, host := range []string{"a", "b"} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					r, err := f.hosts[host].Join(ctx, job, rank, 3, JoinOptions{})
					if err != nil {
						t.Errorf("rank %d: %v", rank, err)
						return
					}
					if calls {
						_, err := r.Do(ctx, Call{Collective: Barrier})
						wantFailure(t, err, Failure{Kind: RankLost, Rank: 2, Host: "b", Cause: "its client gave up while the group formed"})
					}
					r.Leave("")
				})
			}
			wg.Wait()
			time.Sleep(3 * attachTimeout)
			synctest.Wait()
			for name, g := range f.hosts {
				if len(g.members)+len(g.coords)+len(g.claimed)+len(g.over) > 0 {
					t.Errorf("calls %t: %s keeps state of the group", calls, name)
				}
			}
			stop()
		})
	}
}
