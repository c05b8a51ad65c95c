package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// A tapBench is a window that several runs use, without engines: every lane has one waiter.
type tapBench struct {
	x     *run // whoever calls
	w     *window
	lanes []*outLane
}

func newTapBench(rng *rand.Rand, taps int) *tapBench {
	b := &tapBench{x: &run{eng: &Engine{}}}
	var mu sync.Mutex // of another run, so that wakes are kept
	path := Path{RTT: time.Duration(1+rng.IntN(200)) * time.Millisecond, Rate: 1e6, Flows: 1 + rng.IntN(20)}
	for range taps {
		lanes := 1 + rng.IntN(3)
		w := newWindow(path, lanes, 1<<(10+rng.IntN(10)))
		t := &tap{window: w, run: b.x, name: "host", slice: w.slice, step: w.step, queue: w.queue, lone: lanes == 1, whole: rng.IntN(2) == 0}
		b.x.eng.windows.join(t)
		b.w = t.window
		for n := range lanes {
			b.lanes = append(b.lanes, &outLane{n: n, win: t, cond: sync.NewCond(&mu)})
		}
	}
	return b
}

// TestTap: whatever lanes of several runs ask for, write and give back, what is reserved and under way adds up, nobody waits while there is
// room, and at the end nothing is left.
func TestTap(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 99))
		b := newTapBench(rng, 2+rng.IntN(5))
		for step := range 400 {
			l := b.lanes[rng.IntN(len(b.lanes))]
			switch rng.IntN(6) {
			case 0, 1:
				if !l.turn.waits || !l.turn.midway {
					l.win.begin(l, rng.IntN(4) > 0)
				}
			case 2, 3:
				if n := l.win.slice; l.win.take(l, n) {
					l.sent += n
				}
			case 4:
				n := l.sent - l.got
				if n > 0 && rng.IntN(2) == 0 {
					n = rng.Int64N(n) + 1
				}
				l.got += n
				took := time.Duration(rng.IntN(1000)) * time.Millisecond
				l.win.reply(l, n, took, took)
			case 5:
				l.win.cancel(l)
			}
			b.check(t, seed, step)
		}
		for _, l := range b.lanes {
			l.win.cancel(l)
			n := l.sent - l.got
			l.got = l.sent
			l.win.reply(l, n, math.MaxInt64, math.MaxInt64)
		}
		for _, l := range b.lanes {
			l.win.cancel(l) // what the others gave back
		}
		if b.w.reserved != 0 || len(b.w.line) != 0 || b.w.sent != b.w.got || b.w.stuck != 0 {
			t.Fatalf("seed %d: at the end %d bytes are reserved, %d lanes wait, %d of %d bytes are answered", seed, b.w.reserved, len(b.w.line), b.w.got, b.w.sent)
		}
		for _, l := range b.lanes {
			b.x.eng.windows.leave(l.win)
		}
		if n := len(b.x.eng.windows.all); n != 0 {
			t.Fatalf("seed %d: %d windows are left", seed, n)
		}
	}
}

func (b *tapBench) check(t *testing.T, seed uint64, step int) {
	t.Helper()
	var reserved, sent, got int64
	waits := 0
	for _, l := range b.lanes {
		reserved += l.turn.reserved
		sent, got = sent+l.sent, got+l.got
		if l.turn.waits {
			waits++
			if l.turn.reserved > 0 {
				t.Fatalf("seed %d, step %d: a lane that waits may write %d bytes", seed, step, l.turn.reserved)
			}
		}
	}
	if reserved != b.w.reserved || waits != len(b.w.line) || sent != b.w.sent || got != b.w.got {
		t.Fatalf("seed %d, step %d: reserved %d, want %d; %d wait, want %d; sent %d, want %d; answered %d, want %d",
			seed, step, b.w.reserved, reserved, len(b.w.line), waits, b.w.sent, sent, b.w.got, got)
	}
	if waits > 0 && b.w.sent+b.w.reserved == b.w.got {
		t.Fatalf("seed %d, step %d: %d lanes wait and nothing is under way", seed, step, waits)
	}
}

// TestLateAnswersAreRemembered: a window to a host whose answers were late when the last run there ended begins as large as it then had to be. Others do not, and one
// that is in use stays as it is.
func TestLateAnswersAreRemembered(t *testing.T) {
	const trip = 200 * time.Millisecond
	late, even := Path{RTT: 10 * time.Millisecond, Rate: 1e6, Back: 3e5}, Path{RTT: 10 * time.Millisecond, Rate: 1e6, Back: 1e6}
	for _, tt := range []struct {
		name    string
		path    Path
		answers int
		other   bool // the next run is to another host
		after   Path
		want    time.Duration // of the path; 0: what a new window holds
	}{
		{"late", late, 4, false, late, trip},
		{"too few to tell", late, 3, false, late, 0},
		{"another host", late, 4, true, late, 0},
		{"no longer", late, 4, false, even, 0},
		{"never", even, 4, false, late, 0},
	} {
		var a windows
		tapTo := func(name string, p Path) *tap {
			w := newWindow(p, 1, 4096)
			t := &tap{window: w, name: name, slice: w.slice, step: w.step, part: w.part, queue: w.queue}
			a.join(t)
			return t
		}
		first := tapTo("host", tt.path)
		first.window.least = 5 * time.Millisecond
		for range tt.answers {
			first.window.fill(trip, 5*time.Millisecond)
		}
		second := tapTo("host", tt.path)
		if second.window != first.window {
			t.Fatalf("%s: two windows to one host at a time", tt.name)
		}
		a.leave(first)
		a.leave(second)
		name := "host"
		if tt.other {
			name = "other"
		}
		want := newWindow(tt.after, 1, 4096).limit
		next := tapTo(name, tt.after)
		if tt.want > 0 {
			want = max(want, int64(1e6*tt.want.Seconds())+next.window.slice)
		}
		if next.window.limit != want {
			t.Errorf("%s: a window of %d bytes, want %d", tt.name, next.window.limit, want)
		}
		a.leave(next)
	}
	var a windows
	for i := range 2 * mostLate {
		a.remember(fmt.Sprint(i), &window{part: 1, trips: [4]time.Duration{1, 1, 1, 1}})
	}
	if len(a.late) > mostLate {
		t.Errorf("%d hosts are remembered", len(a.late))
	}
}

// TestTapIsFair: runs that always have something to send are served alike, whatever their chunks.
func TestTapIsFair(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 100))
		b := newTapBench(rng, 2+rng.IntN(5))
		for range 1000 {
			for more, passes := true, 0; more; passes++ {
				if passes > 20000 {
					t.Fatalf("seed %d: no end of what may go out: %d bytes with a limit of %d", seed, b.w.sent-b.w.got, b.w.limit)
				}
				more = false
				for _, l := range b.lanes { // one after the other: all ask at the same time
					if l.win.begin(l, true) && l.win.take(l, l.win.slice) {
						l.sent += l.win.slice
						more = true
					}
				}
			}
			l := b.lanes[rng.IntN(len(b.lanes))]
			if n := min(l.sent-l.got, l.win.slice); n > 0 {
				l.got += n
				took := time.Duration(b.w.sent-b.w.got) * time.Microsecond
				l.win.reply(l, n, took, took) // a queue of 1 MB/s
			}
		}
		low, high := int64(math.MaxInt64), int64(0)
		for _, o := range b.w.taps {
			low, high = min(low, o.served), max(high, o.served)
		}
		if most := 2 * b.w.limit; high-low > most {
			t.Errorf("seed %d: of %d runs one was served %d bytes and another %d, want at most %d between them", seed, len(b.w.taps), low, high, most)
		}
	}
}

// TestClocks: the peer's clock may begin anew, and may say anything.
func TestClocks(t *testing.T) {
	w := &tap{window: &window{}}
	const wrap = clockWrap * time.Microsecond
	sent, clock := time.Duration(0), wrap-time.Second
	first := w.took(sent, clock)
	for i := range 20 {
		sent += time.Hour / 7
		clock = (clock + time.Hour/7 + time.Duration(i)*time.Millisecond) % wrap
		first += time.Duration(i) * time.Millisecond
		if got := w.took(sent, clock); got != first {
			t.Fatalf("%d: %v by two clocks, want %v", i, got, first)
		}
	}
	for _, c := range []time.Duration{0, 1, math.MaxInt64, maxNumber * time.Microsecond} {
		if got := w.took(sent, c); got < -wrap/2 || got >= wrap/2 {
			t.Errorf("clock %d: %v, want between -%v and %v", c, got, wrap/2, wrap/2)
		}
	}
}

// TestClockOfNewPeer: a peer that starts anew while a window is in use counts from another time on, which is no queue.
func TestClockOfNewPeer(t *testing.T) {
	path := Path{RTT: 100 * time.Millisecond, Rate: 1e6}
	for _, jump := range []time.Duration{-15 * time.Minute, -time.Hour, 17 * time.Minute, time.Hour} {
		w := newWindow(path, 1, 64<<10)
		limit := w.limit
		l := &outLane{win: &tap{window: w, run: &run{}, slice: w.slice, step: w.step}}
		w.taps = []*tap{l.win}
		sent := time.Duration(0)
		for i := range 20 {
			clock := 2*time.Hour + sent + path.RTT/2
			if i >= 5 {
				clock += jump
			}
			for l.win.take(l, w.slice) {
				l.sent += w.slice
			}
			n := l.sent - l.got
			l.got += n
			took := l.win.took(sent, clock%(clockWrap*time.Microsecond))
			l.win.reply(l, n, took, took)
			sent += path.RTT
		}
		if w.limit < limit {
			t.Errorf("clock that goes on %v later: a window of %d bytes, want %d at least", jump, w.limit, limit)
		}
	}
}

// TestEarly: what went out long before the peer began is no measure, and all else is.
func TestEarly(t *testing.T) {
	start := time.Now()
	for _, tc := range []struct {
		doubt doubt
		at    time.Duration
		want  bool
	}{
		{doubt{}, time.Second, false},
		{doubt{unsure: true}, time.Millisecond, false}, // not for long
		{doubt{end: start.Add(shortDoubt / 2)}, time.Millisecond, false},
		{doubt{end: start.Add(10 * time.Second)}, time.Second, true},
		{doubt{end: start.Add(10 * time.Second)}, 11 * time.Second, false},
	} {
		x := &run{start: start, doubt: tc.doubt}
		if got := x.early(tc.at); got != tc.want {
			t.Errorf("%+v, sent at %v: early is %v, want %v", tc.doubt, tc.at, got, tc.want)
		}
	}
}
