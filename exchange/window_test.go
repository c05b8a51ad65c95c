package exchange

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A pipe is a FIFO link shared by flows, for windows alone: no engine, no packets.
type pipe struct {
	rate  float64       // bytes a second
	delay time.Duration // both ways together
	now   time.Time
	free  time.Time // when what is queued will have gone out
	idle  time.Duration
	most  time.Duration // longest wait in the queue
	flows []*pipeFlow
}

type pipeFlow struct {
	w       *window
	left    int    // slices
	answers []slot // in order, as all ways are alike
}

// A slot is a slice on its way.
type slot struct{ sent, back time.Time }

func newPipe(rate float64, delay time.Duration, n, chunk, chunks int) *pipe {
	p := &pipe{rate: rate, delay: delay, now: time.Unix(0, 0)}
	p.free = p.now
	for range n {
		p.flows = append(p.flows, &pipeFlow{
			w:    newWindow(Path{RTT: delay, Rate: netmap.BytesPerSec(rate), Flows: n}, 1, chunk),
			left: chunks,
		})
	}
	return p
}

// run goes on until end, or until nothing is left to send.
func (p *pipe) run(t *testing.T, end time.Time) {
	for {
		for _, f := range p.flows {
			for f.left > 0 && f.w.room(f.w.slice) {
				f.left--
				if p.now.After(p.free) {
					p.idle += p.now.Sub(p.free)
					p.free = p.now
				}
				p.most = max(p.most, p.free.Sub(p.now))
				p.free = p.free.Add(time.Duration(float64(f.w.slice) / p.rate * 1e9))
				f.w.wrote(f.w.slice)
				f.answers = append(f.answers, slot{p.now, p.free.Add(p.delay)})
			}
		}
		var first *pipeFlow
		for _, f := range p.flows {
			if len(f.answers) > 0 && (first == nil || f.answers[0].back.Before(first.answers[0].back)) {
				first = f
			}
		}
		if first == nil || first.answers[0].back.After(end) {
			return
		}
		p.now = first.answers[0].back
		took := p.now.Sub(first.answers[0].sent)
		first.w.answered(first.w.slice, took, took)
		first.answers = first.answers[1:]
	}
}

// TestWindowShares: flows that begin together keep the link busy and its queue short,
// and one that is left alone takes the whole link.
func TestWindowShares(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 70))
		rate := float64(100_000 + rng.IntN(10_000_000))
		delay := time.Duration(10+rng.IntN(200)) * time.Millisecond
		n, chunk := 1+rng.IntN(12), 4096<<rng.IntN(6)
		p := newPipe(rate, delay, n, chunk, 1<<20)
		one := time.Duration(float64(p.flows[0].w.slice) / rate * 1e9)
		round := delay + time.Duration(2*n)*one
		warm := p.now.Add(time.Duration(3+bits.Len(uint(delay/one))) * round)
		p.run(t, warm)
		p.idle, p.most = 0, 0
		span := 20 * round
		p.run(t, warm.Add(span))
		if p.idle > span/10 {
			t.Errorf("seed %d: %d flows of chunks of %d over %.0f B/s, %v: idle for %v of %v", seed, n, chunk, rate, delay, p.idle, span)
		}
		// Each has at most a slice or two of its own before the link, or the queue that windows leave
		// each other, and a doubling may overshoot by the link's own product once.
		own := max(3*one, time.Duration(leastQueue/rate*1e9))
		if most := time.Duration(n)*own + delay; p.most > most {
			t.Errorf("seed %d: %d flows of chunks of %d over %.0f B/s, %v: a queue of %v, want at most %v", seed, n, chunk, rate, delay, p.most, most)
		}
		for _, f := range p.flows[1:] {
			f.left = 0
		}
		alone := p.now.Add(time.Duration(8+2*bits.Len(uint(delay/one))) * round)
		p.run(t, alone)
		p.idle = 0
		p.run(t, alone.Add(span))
		if p.idle > span/10 {
			t.Errorf("seed %d: one flow left of %d over %.0f B/s, %v: idle for %v of %v", seed, n, rate, delay, p.idle, span)
		}
	}
}

// TestWindowGoesDown: a queue that is not of its own making, which stays for long, takes
// a window back to a few slices and never below.
func TestWindowGoesDown(t *testing.T) {
	w := newWindow(Path{RTT: 100 * time.Millisecond, Rate: 1e6, Flows: 1}, 1, 4096)
	if w.limit != 100_000+w.slice {
		t.Fatalf("begins with %d bytes, want rate times round trip and a slice", w.limit)
	}
	for range 200 {
		for w.room(w.slice) {
			w.wrote(w.slice)
		}
		w.answered(w.sent-w.got, time.Second, time.Second)
		w.least = 50 * time.Millisecond // what it was when nothing stood in the queue
		if w.limit < leastSlices*w.slice {
			t.Fatalf("a window of %d bytes holds less than %d slices of %d", w.limit, leastSlices, w.slice)
		}
	}
	if most := max((leastSlices+1)*w.slice, w.some()*10/9); w.limit > most {
		t.Errorf("after 200 rounds of ten times the round trip the window is %d bytes, want at most %d", w.limit, most)
	}
}

// TestWindowFills: answers that come late, because those of the other direction stand in a queue, make a window larger at once, to what fills this host's part of
// the path; what a slice itself has waited for does not, nor does a single answer, nor one to a window that nobody waits for.
func TestWindowFills(t *testing.T) {
	const rate, flows, way = 1e6, 4, 20 * time.Millisecond
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, tt := range []struct {
		name    string
		trips   []time.Duration
		late    time.Duration // of that, on the way there
		pressed bool
		want    time.Duration // the window holds this host's part for so long; 0: what it held at first
	}{
		{"in time", []time.Duration{ms(50), ms(50), ms(50), ms(50), ms(50)}, 0, true, 0},
		{"late answers", []time.Duration{ms(200), ms(210), ms(220), ms(230)}, 0, true, ms(200)},
		{"late slices", []time.Duration{ms(250), ms(250), ms(250), ms(250)}, ms(200), true, 0},
		{"both", []time.Duration{ms(350), ms(350), ms(350), ms(350)}, ms(100), true, ms(250)},
		{"three of them", []time.Duration{ms(400), ms(400), ms(400)}, 0, true, 0},
		{"one was lost", []time.Duration{ms(50), ms(50), ms(50), ms(900), ms(50), ms(50)}, 0, true, 0},
		{"nobody waits", []time.Duration{ms(200), ms(200), ms(200), ms(200)}, 0, false, 0},
		{"for ever", []time.Duration{1e18, 1e18, 1e18, 1e18}, 0, true, time.Duration(maxWindow * 1e9 / (rate / flows))},
	} {
		w := newWindow(Path{RTT: 50 * time.Millisecond, Rate: rate, Back: rate / 2, Flows: flows}, 1, 4096)
		want := w.limit
		if tt.want > 0 {
			want = max(want, int64(rate/flows*tt.want.Seconds())+w.slice)
		}
		w.least = way
		for _, trip := range tt.trips {
			w.pressed = tt.pressed
			w.fill(trip, way+tt.late)
		}
		if w.limit != want {
			t.Errorf("%s: a window of %d bytes, want %d", tt.name, w.limit, want)
		}
	}
}

// TestWindowLoop: what is held flow by flow has so much under way that answers may wait behind the least windows that come the other way, but no more than the queue has room for.
func TestWindowLoop(t *testing.T) {
	const flow, flows = 125_000, 2
	held := Path{RTT: 20 * time.Millisecond, Rate: flow, Capacity: flows * flow, Flows: flows}
	for _, tt := range []struct {
		name string
		path func(p *Path)
		want time.Duration // of what the pair gets
	}{
		{"nothing is known of the way back", func(p *Path) {}, 0},
		{"a slow way back", func(p *Path) { p.Back = 2 * flow }, netmap.BytesPerSec(2 * flow).Time(flows * leastSlices * leastSlice)},
		{"a fast one", func(p *Path) { p.Back = 100 * flow }, 0},
		{"one flow fills the path", func(p *Path) { p.Rate, p.Back = p.Capacity, flow }, 0},
		{"a way back that stands", func(p *Path) { p.Back = 1 }, 2*held.RTT + netmap.BytesPerSec(flow).Time(linkQueue/2/flows)},
	} {
		p := held
		tt.path(&p)
		w := newWindow(p, 1, 1<<20)
		want := max(int64(p.share(1))+w.slice, w.floor*w.slice, int64(flow*tt.want.Seconds())+w.slice)
		if d := w.limit - want; d < -1 || d > 1 {
			t.Errorf("%s: a window of %d bytes, want %d", tt.name, w.limit, want)
		}
	}
}

// TestWindowSpaced: at a spacing a window holds what comes between two answers beside its part of the path, and the slices that wait for their turn: with less it is full while the link has room.
func TestWindowSpaced(t *testing.T) {
	for _, rtt := range []time.Duration{5 * time.Millisecond, 75 * time.Millisecond, 300 * time.Millisecond} {
		p := Path{RTT: rtt, Rate: 800_000, Flows: 8}
		plain := newWindow(p, 1, 16<<10)
		p.spaced = true
		w := newWindow(p, 1, 16<<10)
		if least := int64(p.share(1)) + w.step + 2*w.slice; w.limit < least || w.limit < plain.limit {
			t.Errorf("%v: a window of %d bytes, want %d at least; %d without a spacing", rtt, w.limit, least, plain.limit)
		}
		if w.slice != plain.slice || w.step != plain.step || w.queue != plain.queue {
			t.Errorf("%v: slices, answers or queue differ from those without a spacing", rtt)
		}
	}
}

// TestWindowYields: where answers to what comes the other way wait behind what goes here, windows of many pairs together hold a short queue: they go down to a packet each.
func TestWindowYields(t *testing.T) {
	const rate, flows = 125_000, 15
	p := Path{RTT: 10 * time.Millisecond, Rate: rate, Back: 10 * rate, Flows: flows}
	if !p.hinders() || p.answersLate() {
		t.Fatalf("a path that is ten times as fast the other way: hinders %t, answers late %t", p.hinders(), p.answersLate())
	}
	for _, yields := range []bool{false, true} {
		p.yields = yields
		w := newWindow(p, 1, 4096)
		w.answered(0, 5*time.Millisecond, 5*time.Millisecond)
		for range 50 {
			for w.room(w.slice) {
				w.wrote(w.slice)
			}
			late := netmap.BytesPerSec(rate).Time(flows * w.limit) // of them all
			w.answered(w.sent-w.got, 5*time.Millisecond+late, 5*time.Millisecond+late)
		}
		all := netmap.BytesPerSec(rate).Time(flows * w.limit)
		if yields && all > 200*time.Millisecond || !yields && all < time.Second {
			t.Errorf("yields %t: %d windows of %d bytes take the link %v", yields, flows, w.limit, all)
		}
	}
	if p := (Path{RTT: 10 * time.Millisecond, Rate: rate, Back: 2 * rate, Flows: flows}); p.hinders() {
		t.Error("a path that is twice as fast the other way hinders it")
	}
	if p := (Path{RTT: 400 * time.Millisecond, Rate: rate, Back: 10 * rate, Flows: flows}); p.hinders() {
		t.Error("a path with a long round trip hinders the other way")
	}
}

// TestAnswersLate: windows go by late answers where a path is slower the other way and loses little.
func TestAnswersLate(t *testing.T) {
	for _, tt := range []struct {
		p    Path
		want bool
	}{
		{Path{Rate: 10}, false},
		{Path{Rate: 10, Back: 5}, true},
		{Path{Rate: 10, Back: 6}, false},
		{Path{Rate: 3, Capacity: 10, Back: 5}, true},
		{Path{Rate: 10, Back: 2, Loss: 0.001}, true},
		{Path{Rate: 10, Back: 2, Loss: 0.01}, false},
	} {
		if got := tt.p.answersLate(); got != tt.want {
			t.Errorf("%+v: %t", tt.p, got)
		}
	}
}

func TestNoWindow(t *testing.T) {
	for _, p := range []Path{{}, {RTT: time.Second}, {Rate: 1e6}, {RTT: -1, Rate: 1e6}, {RTT: time.Second, Rate: netmap.BytesPerSec(math.Inf(1))}} {
		w := newWindow(p, 1, 4096)
		w.wrote(1 << 30)
		if w != nil || !w.room(1<<30) || (&outLane{}).step() != 0 {
			t.Errorf("path %+v: a window, want none", p)
		}
	}
}

// TestAnswers: a peer may answer what was written, in order, and nothing else.
func TestAnswers(t *testing.T) {
	w := newWindow(Path{RTT: time.Second, Rate: 1e6}, 1, 10)
	l := &outLane{win: &tap{window: w, run: &run{}, slice: w.slice, step: w.step}}
	w.taps = []*tap{l.win}
	l.sent = 20
	l.win.force(l, 20)
	for _, got := range []int64{21, -1} {
		if err := l.answered(got, 0); !errors.Is(err, errMalformed) {
			t.Errorf("%d bytes of 20 answered: %v", got, err)
		}
	}
	if err := l.answered(20, 0); err != nil {
		t.Error(err)
	}
	if err := l.answered(10, 0); !errors.Is(err, errMalformed) {
		t.Errorf("answers go back from 20 to 10: %v", err)
	}
	if err := (&outLane{}).answered(0, 0); !errors.Is(err, errMalformed) {
		t.Errorf("an answer that was not asked for: %v", err)
	}
}

// TestLateStamps: on a busy machine the one who writes a slice may learn seconds later that the transport has taken it. That slice was not
// quicker than all others, and those that come after it are not late.
func TestLateStamps(t *testing.T) {
	const way, stall = 50 * time.Millisecond, 5 * time.Second
	w := newWindow(Path{RTT: 2 * way, Rate: 1e6, Flows: 1}, 1, 8192)
	w.limit = 1 << 20 // rounds are of one slice here: it is not to grow
	l := &outLane{win: &tap{window: w, run: &run{}, slice: w.slice, step: w.step}}
	w.taps = []*tap{l.win}
	n := w.slice
	for i := range 20 {
		from := time.Duration(i) * time.Second
		at := from + time.Millisecond
		if i == 3 {
			at = from + stall
		}
		l.win.force(l, n)
		l.sent += n
		l.slices = append(l.slices, mark{end: l.sent, from: from, at: at})
		if err := l.answered(l.sent, from+way+7*time.Hour); err != nil { // by a clock of its own
			t.Fatal(err)
		}
		if i != 3 && w.late > 2*time.Millisecond {
			t.Errorf("slice %d is late by %v, no queue was on its way", i, w.late)
		}
	}
	if w.limit < 1<<20 {
		t.Errorf("the window shrank to %d bytes", w.limit)
	}
}

// TestAnswerInMidSlice: slices go out far apart where many hosts share a slow link. An answer that comes when half of the second has been read does not make the first, which was read long
// before, seem to have stood in a queue; one that took long does.
func TestAnswerInMidSlice(t *testing.T) {
	const way, apart = 50 * time.Millisecond, 80 * time.Millisecond
	for _, queue := range []time.Duration{0, 60 * time.Millisecond} {
		w := newWindow(Path{RTT: 2 * way, Rate: 1e6, Flows: 1}, 1, 1<<20)
		w.limit = 1 << 20 // it is not to grow
		l := &outLane{win: &tap{window: w, run: &run{}, slice: w.slice, step: w.step}}
		w.taps = []*tap{l.win}
		begin := func(at time.Duration) {
			l.win.force(l, w.slice)
			l.sent += w.slice
			l.slices = append(l.slices, mark{end: l.sent, from: at, at: at + time.Microsecond})
		}
		read := func(got int64, at time.Duration) {
			t.Helper()
			if err := l.answered(got, at+7*time.Hour); err != nil { // by a clock of its own
				t.Fatal(err)
			}
		}
		begin(0)
		read(l.sent, way+w.rate.Time(w.slice))
		late := time.Duration(math.MaxInt64)
		for at := time.Second; at < 3*time.Second; at += time.Second {
			begin(at)
			begin(at + apart)
			read(l.sent-w.slice/2, at+apart+queue+way+w.rate.Time(w.slice/2))
			late = min(late, w.late)
			begin(at + 2*apart)
			read(l.sent, at+2*apart+queue+way+w.rate.Time(w.slice))
			late = min(late, w.late)
		}
		if late < queue-2*time.Millisecond || w.late > queue+2*time.Millisecond {
			t.Errorf("slices are late by %v to %v, want %v", late, w.late, queue)
		}
	}
}

// TestWindowedRun: random plans end with the right bytes under the narrowest windows, and
// no stream ever has more than one chunk unanswered.
func TestWindowedRun(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 71))
			p := ringPlan(2 + rng.IntN(5))
			p.MessageBytes = int64(rng.IntN(500))
			g := newFakeGrid(t, p.Hosts, func(c *Config) {
				c.Path = func(string) Path { return Path{RTT: time.Millisecond, Rate: 1, Flows: 1} }
			})
			j := newJob(t, rng, p, 1+rng.IntN(50))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, errs := g.run(ctx, j)
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Errorf("seed %d: host %d: %v", seed, h, err)
				}
			}
		})
	}
}
