package exchange

import (
	"context"
	"errors"
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
	left    int // chunks
	sent    int64
	answers []mark // in order, as all ways are alike
}

func newPipe(rate float64, delay time.Duration, n, chunk, chunks int) *pipe {
	p := &pipe{rate: rate, delay: delay, now: time.Unix(0, 0)}
	p.free = p.now
	for range n {
		p.flows = append(p.flows, &pipeFlow{
			w:    newWindow(Path{RTT: delay, Rate: netmap.BytesPerSec(rate), Flows: n}, chunk),
			left: chunks,
		})
	}
	return p
}

// run goes on until end, or until nothing is left to send.
func (p *pipe) run(t *testing.T, end time.Time) {
	for {
		for _, f := range p.flows {
			for f.left > 0 && !f.w.full() {
				f.left--
				if p.now.After(p.free) {
					p.idle += p.now.Sub(p.free)
					p.free = p.now
				}
				p.most = max(p.most, p.free.Sub(p.now))
				p.free = p.free.Add(time.Duration(float64(f.w.chunk) / p.rate * 1e9))
				f.sent += f.w.chunk
				f.w.wrote(int(f.w.chunk), p.now)
				f.answers = append(f.answers, mark{f.sent, p.free.Add(p.delay)})
			}
		}
		var first *pipeFlow
		for _, f := range p.flows {
			if len(f.answers) > 0 && (first == nil || f.answers[0].at.Before(first.answers[0].at)) {
				first = f
			}
		}
		if first == nil || first.answers[0].at.After(end) {
			return
		}
		p.now = first.answers[0].at
		if err := first.w.answered(first.answers[0].end, p.now); err != nil {
			t.Fatal(err)
		}
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
		n, chunk := 1+rng.IntN(12), 4096<<rng.IntN(4)
		p := newPipe(rate, delay, n, chunk, 1<<20)
		one := time.Duration(float64(chunk) / rate * 1e9)
		round := delay + time.Duration(2*n)*one
		warm := p.now.Add(time.Duration(3+bits.Len(uint(delay/one))) * round)
		p.run(t, warm)
		p.idle, p.most = 0, 0
		span := 20 * round
		p.run(t, warm.Add(span))
		if p.idle > span/10 {
			t.Errorf("seed %d: %d flows of chunks of %d over %.0f B/s, %v: idle for %v of %v", seed, n, chunk, rate, delay, p.idle, span)
		}
		// Each has at most a chunk or two of its own before the link, and a doubling may
		// overshoot by the link's own product once.
		if most := time.Duration(3*n)*one + delay; p.most > most {
			t.Errorf("seed %d: %d flows of chunks of %d over %.0f B/s, %v: a queue of %v, want at most %v", seed, n, chunk, rate, delay, p.most, most)
		}
		for _, f := range p.flows[1:] {
			f.left = 0
		}
		alone := p.now.Add(time.Duration(4+bits.Len(uint(delay/one))) * round)
		p.run(t, alone)
		p.idle = 0
		p.run(t, alone.Add(span))
		if p.idle > span/10 {
			t.Errorf("seed %d: one flow left of %d over %.0f B/s, %v: idle for %v of %v", seed, n, rate, delay, p.idle, span)
		}
	}
}

// TestWindowGoesDown: a queue that is not of its own making, which stays for long, takes
// a window back to one chunk and never below.
func TestWindowGoesDown(t *testing.T) {
	w := newWindow(Path{RTT: 100 * time.Millisecond, Rate: 1e6, Flows: 1}, 4096)
	if w.limit != 100_000 {
		t.Fatalf("begins with %d bytes, want rate times round trip", w.limit)
	}
	now := time.Unix(0, 0)
	for range 200 {
		for !w.full() {
			w.wrote(4096, now)
		}
		now = now.Add(time.Second)
		if err := w.answered(w.sent, now); err != nil {
			t.Fatal(err)
		}
		if w.limit < 4096 {
			t.Fatalf("a window of %d bytes holds no chunk", w.limit)
		}
	}
	if w.limit > 2*4096 {
		t.Errorf("after 200 rounds of ten times the round trip the window is %d bytes", w.limit)
	}
}

func TestNoWindow(t *testing.T) {
	for _, p := range []Path{{}, {RTT: time.Second}, {Rate: 1e6}, {RTT: -1, Rate: 1e6}} {
		w := newWindow(p, 4096)
		w.wrote(1<<30, time.Time{})
		if w != nil || w.full() {
			t.Errorf("path %+v: a window, want none", p)
		}
		if err := w.answered(0, time.Time{}); !errors.Is(err, errMalformed) {
			t.Errorf("path %+v: answer that was not asked for: %v", p, err)
		}
	}
	w := newWindow(Path{RTT: time.Second, Rate: 1e6}, 10)
	w.wrote(10, time.Time{})
	w.wrote(10, time.Time{})
	for _, got := range []int64{21, -1} {
		if err := w.answered(got, time.Time{}); !errors.Is(err, errMalformed) {
			t.Errorf("%d bytes of 20 answered: %v", got, err)
		}
	}
	if err := w.answered(20, time.Time{}); err != nil {
		t.Error(err)
	}
	if err := w.answered(10, time.Time{}); !errors.Is(err, errMalformed) {
		t.Errorf("answers go back from 20 to 10: %v", err)
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
