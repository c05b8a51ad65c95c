package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

var errBroken = errors.New("fake lane broken")

// A half is one direction of a fake stream: a bounded buffer with deadlines.
type half struct {
	mu               sync.Mutex
	cond             *sync.Cond
	buf              []byte
	limit            int
	eof              bool  // the writer has closed
	err              error // broken for both ends
	readNo           bool  // the reader has closed
	readBy, writeBy  time.Time
	readTmr, writTmr *time.Timer
}

func newHalf(limit int) *half {
	h := &half{limit: limit}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.cond.Broadcast()
}

func past(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readNo:
			return 0, io.ErrClosedPipe
		case h.err != nil:
			return 0, h.err
		case past(h.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = h.buf[n:]
			h.cond.Broadcast()
			return n, nil
		case h.eof:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (h *half) write(p []byte) (int, error) { return h.put(p, false) }

// put is write, and the end with the last byte if that is p's.
func (h *half) put(p []byte, last bool) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for {
		switch {
		case h.err != nil:
			return n, h.err
		case h.eof || h.readNo:
			return n, io.ErrClosedPipe
		case past(h.writeBy):
			return n, os.ErrDeadlineExceeded
		}
		k := min(len(p)-n, h.limit-len(h.buf))
		h.buf = append(h.buf, p[n:n+k]...)
		if n += k; k > 0 {
			h.cond.Broadcast()
		}
		if n == len(p) {
			h.eof = last
			return n, nil
		}
		h.cond.Wait()
	}
}

func (h *half) deadline(at *time.Time, timer **time.Timer, t time.Time) {
	h.do(func() {
		*at = t
		if *timer != nil {
			(*timer).Stop()
		}
		// A timer for an instant that has passed crashes the race detector in a bubble
		// (golang/go#78156); do broadcasts anyway.
		if !t.IsZero() && !past(t) {
			*timer = time.AfterFunc(time.Until(t), func() { h.do(func() {}) })
		}
	})
}

// A fakeStream is one end of a fake stream.
type fakeStream struct {
	in, out *half
	tamper  func(p []byte) []byte // sees each write; nil leaves it alone
	pause   func()                // before each write; nil for none
	lag     func()                // before each read; nil for none
}

func fakePair(limit int) (a, b *fakeStream) {
	x, y := newHalf(limit), newHalf(limit)
	return &fakeStream{in: x, out: y}, &fakeStream{in: y, out: x}
}

func (s *fakeStream) Read(p []byte) (int, error) {
	if s.lag != nil {
		s.lag()
	}
	return s.in.read(p)
}
func (s *fakeStream) Write(p []byte) (int, error) {
	if s.pause != nil {
		s.pause()
	}
	if s.tamper != nil {
		p = s.tamper(p)
	}
	return s.out.write(p)
}
func (s *fakeStream) Close() error { s.out.do(func() { s.out.eof = true }); return nil }
func (s *fakeStream) CloseRead()   { s.in.do(func() { s.in.readNo = true }) }
func (s *fakeStream) Abort() {
	for _, h := range []*half{s.in, s.out} {
		h.do(func() {
			if h.err == nil {
				h.err = errBroken
			}
		})
	}
}
func (s *fakeStream) SetReadDeadline(t time.Time) error {
	s.in.deadline(&s.in.readBy, &s.in.readTmr, t)
	return nil
}
func (s *fakeStream) SetWriteDeadline(t time.Time) error {
	s.out.deadline(&s.out.writeBy, &s.out.writTmr, t)
	return nil
}

// A unitStream is a fake stream for which it pays to gather, like TCP's.
type unitStream struct {
	*fakeStream
	writes, ends *atomic.Int64
}

func (s unitStream) Gathers() int { return 17 << 10 }

func (s unitStream) Within() bool {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return len(s.in.buf) > 0 || s.in.eof
}

func (s unitStream) Write(p []byte) (int, error) {
	s.writes.Add(1)
	return s.fakeStream.Write(p)
}

func (s unitStream) WriteBoth(head, body []byte) (int, error) {
	return s.Write(slices.Concat(head, body))
}

func (s unitStream) WriteLast(p []byte) error {
	s.ends.Add(1)
	s.writes.Add(1)
	if s.pause != nil {
		s.pause()
	}
	if s.tamper != nil {
		p = s.tamper(p)
	}
	_, err := s.out.put(p, true)
	s.Close() // who waits for more is to know
	return err
}

// A fakeGrid is a set of engines connected by fake streams.
type fakeGrid struct {
	engines map[string]*Engine
	units   *atomic.Int64 // counts writes of unitStreams, which all streams are then; nil: none is
	ends    atomic.Int64  // of these, those that ended a stream
	accepts sync.WaitGroup
	// stream, if set, may change the opener's end of a new stream.
	stream func(from, to string, s *fakeStream)
	mu     sync.Mutex // held while stream is called: it draws from one generator
	limit  int
	lag    func() // before each read of an accepted stream; nil for none
}

func newFakeGrid(t *testing.T, hosts []string, edit func(*Config)) *fakeGrid {
	g := &fakeGrid{engines: make(map[string]*Engine), limit: 1 << 12}
	for _, h := range hosts {
		cfg := Config{Self: h, Open: func(ctx context.Context, to string, _ int) (Stream, error) { return g.open(ctx, h, to) }}
		if edit != nil {
			edit(&cfg)
		}
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		g.engines[h] = e
	}
	return g
}

func (g *fakeGrid) open(ctx context.Context, from, to string) (Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a, b := fakePair(g.limit)
	b.lag = g.lag
	if g.stream != nil {
		g.mu.Lock()
		g.stream(from, to, a)
		g.mu.Unlock()
	}
	near, far := Stream(a), Stream(b)
	if g.units != nil {
		near, far = unitStream{a, g.units, &g.ends}, unitStream{b, g.units, &g.ends}
	}
	g.accepts.Go(func() { g.engines[to].Accept(context.Background(), from, far) })
	return near, nil
}

// A job is a plan with its data on every host.
type job struct {
	plan  *plan.Plan
	parts []*Part
	data  []Data
	check func(host int) error
}

// content returns the bytes of the whole block b: different for every block, cheap to make again.
func content(p *plan.Plan, b plan.Block) []byte {
	rng := rand.New(rand.NewPCG(uint64(b.Origin)+1, uint64(b.Dest)+7))
	buf := make([]byte, p.Whole(b))
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	return buf
}

// newJob splits p and lays the blocks out in random order, in random pieces, in one
// buffer or several.
func newJob(t testing.TB, rng *rand.Rand, p *plan.Plan, chunk int) *job {
	t.Helper()
	var id ID
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	parts, err := Split(p, id, chunk, nil)
	if err != nil {
		t.Fatalf("%v\n%+v", err, p)
	}
	j := &job{plan: p, parts: parts, data: make([]Data, len(parts))}
	layouts := make([]map[plan.Block][]Segment, len(parts))
	for h, part := range parts {
		layouts[h] = make(map[plan.Block][]Segment)
		type piece struct {
			b plan.Block
			i int
			n int64
		}
		var pieces []piece
		for _, b := range wholes(part) {
			left := p.Whole(b.Block)
			for i := 0; left > 0 || i == 0; i++ {
				n := left
				if rng.IntN(2) == 0 {
					n = rng.Int64N(left + 1)
				}
				pieces = append(pieces, piece{b.Block, i, n})
				layouts[h][b.Block] = append(layouts[h][b.Block], Segment{})
				left -= n
			}
		}
		rng.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
		var at int64
		cuts := []int64{0}
		for _, pc := range pieces {
			layouts[h][pc.b][pc.i] = Segment{at, pc.n}
			at += pc.n
			if rng.IntN(8) == 0 {
				cuts = append(cuts, at)
			}
		}
		result := make([]byte, at)
		var results [][]byte // the same memory, in several buffers
		if len(cuts) > 1 {
			cuts = append(cuts, at)
			for i, to := range cuts[1:] {
				results = append(results, result[cuts[i]:to:to])
			}
		}
		for _, b := range wholes(part) {
			if b.Role == Origin {
				put(result, layouts[h][b.Block], content(p, b.Block))
			}
		}
		j.data[h] = Data{Result: result, Results: results, Layout: func(b Block) []Segment { return layouts[h][b.Block] }, Progress: new(Progress)}
	}
	j.check = func(h int) error {
		for _, b := range wholes(parts[h]) {
			if got, want := pick(j.data[h].Result, layouts[h][b.Block]), content(p, b.Block); !bytes.Equal(got, want) {
				return fmt.Errorf("host %d: block %v differs", h, b.Block)
			}
		}
		return nil
	}
	return j
}

// wholes returns the blocks of part that have a place in memory, each once and without its pieces.
func wholes(part *Part) (blocks []Block) {
	seen := make(map[plan.Block]bool)
	for _, b := range part.Blocks {
		b.Piece = 0
		if b.Role != Forward && !seen[b.Block] {
			seen[b.Block] = true
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func put(buf []byte, segs []Segment, b []byte) {
	for _, s := range segs {
		copy(buf[s.Offset:s.Offset+s.Len], b)
		b = b[s.Len:]
	}
}

func pick(buf []byte, segs []Segment) []byte {
	var b []byte
	for _, s := range segs {
		b = append(b, buf[s.Offset:s.Offset+s.Len]...)
	}
	return b
}

// run runs j on every host and returns what each Run returned.
func (g *fakeGrid) run(ctx context.Context, j *job) ([]Stats, []error) {
	stats, errs := make([]Stats, len(j.parts)), make([]error, len(j.parts))
	var wg sync.WaitGroup
	for h, part := range j.parts {
		wg.Go(func() { stats[h], errs[h] = g.engines[part.Hosts[h]].Run(ctx, part, j.data[h]) })
	}
	wg.Wait()
	return stats, errs
}
