package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestGathers: small chunks, their checksums and the answers to both go out together over a stream for which that pays, each by
// itself over others.
func TestGathers(t *testing.T) {
	const hosts, chunk, chunks = 4, 100, 60
	count := func(t *testing.T, gather bool) (writes int64) {
		inBubble(t, func(t *testing.T) {
			p := ringPlan(hosts)
			p.MessageBytes = chunk * chunks
			g := newFakeGrid(t, p.Hosts, nil)
			g.limit = 1 << 20
			g.units = new(atomic.Int64)
			if !gather {
				n := g.units
				g.units = nil
				g.stream = func(_, _ string, s *fakeStream) { s.pause = func() { n.Add(1) } }
				defer func() { writes = n.Load() }()
			}
			j := newJob(t, rand.New(rand.NewPCG(1, 70)), p, chunk)
			_, errs := g.run(t.Context(), j)
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Error(err)
				}
			}
			g.accepts.Wait()
			if gather {
				writes = g.units.Load()
			}
		})
		return writes
	}
	single, gathered := count(t, false), count(t, true) // the former without those of answers
	t.Logf("%d writes of single frames, %d with answers of what was gathered", single, gathered)
	if least := int64(hosts * (hosts - 1) * chunks); single < least || gathered > single/10 {
		t.Errorf("%d writes of what was gathered and %d of single frames, at least %d", gathered, single, least)
	}
}

// TestSumBehind: where each write may be a packet, the checksum of a block goes with the block's last bytes.
func TestSumBehind(t *testing.T) {
	for _, size := range []int64{100, 5000, mostTail, mostTail + 1} {
		var n atomic.Int64
		inBubble(t, func(t *testing.T) {
			p := newPlanner(plan.Allgather, 2)
			p.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
			p.add(1, 0, plan.Block{Origin: 1, Dest: plan.All})
			p.p.MessageBytes = size
			g := newFakeGrid(t, p.p.Hosts, nil)
			g.limit = 1 << 20
			g.stream = func(_, _ string, s *fakeStream) { s.pause = func() { n.Add(1) } }
			j := newJob(t, rand.New(rand.NewPCG(1, 71)), p.p, 0)
			_, errs := g.run(t.Context(), j)
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Error(err)
				}
			}
			g.accepts.Wait()
		})
		want := int64(2 * 2) // a stream's header, and the rest
		switch {
		case size > mostTail:
			want += 4 // head and bytes of a chunk that is not copied, and the sum
		}
		if got := n.Load(); got != want {
			t.Errorf("blocks of %d bytes: %d writes of two hosts, want %d", size, got, want)
		}
	}
}

// TestGathersOneChunk: who forwards large chunks inside a site has them one by one.
func TestGathersOneChunk(t *testing.T) {
	near, far := func(string) string { return "A" }, func(h string) string { return h }
	for _, c := range []struct {
		chunk int
		site  func(string) string
		want  int
	}{
		{100, near, leastGather + frameRoom}, {6000, near, 6000 + frameRoom}, {16 << 10, near, 16<<10 + frameRoom}, {1 << 20, near, 17 << 10},
		{100, far, 17 << 10}, {1 << 20, far, 17 << 10},
	} {
		x := &run{part: &Part{Hosts: hostNames(3), Chunk: c.chunk}, eng: &Engine{cfg: Config{Self: "host0", Site: c.site}}}
		x.sites = sitesOf(x.part.Hosts, "host0", c.site)
		if b := x.batchOf(new(peer), &outLane{stream: unitStream{}}); b.room != c.want {
			t.Errorf("chunks of %d: %d bytes are gathered, want %d", c.chunk, b.room, c.want)
		}
		if b := x.batchOf(new(peer), &outLane{stream: &fakeStream{}}); b.room != 0 {
			t.Errorf("%d bytes are gathered for a stream that gathers by itself", b.room)
		}
		for _, s := range []Stream{unitStream{}, &fakeStream{}} { // a slice, and no more
			l := &outLane{stream: s, win: &tap{window: new(window), slice: 2780}}
			if b := x.batchOf(new(peer), l); !b.fits(2780-wrapping) || b.fits(2780-wrapping+1) {
				t.Errorf("%d bytes are gathered for slices of 2780", b.room)
			}
		}
	}
}

// TestHeaderAhead: over a way that loses nothing the header goes before any data, so that its answer tells of an empty queue, and elsewhere with them.
func TestHeaderAhead(t *testing.T) {
	x := &run{part: &Part{Hosts: hostNames(3), Chunk: 1000}, eng: &Engine{cfg: Config{Self: "host0", Site: func(h string) string { return h }}}}
	x.sites = sitesOf(x.part.Hosts, "host0", x.eng.cfg.Site)
	for _, loses := range []bool{false, true} {
		l := &outLane{stream: &fakeStream{}, win: &tap{window: new(window), slice: 2780}}
		if b := x.batchOf(&peer{loses: loses}, l); b.ahead == loses {
			t.Errorf("packets are lost: %v, ahead %v", loses, b.ahead)
		}
	}
	if b := x.batchOf(new(peer), &outLane{stream: unitStream{}}); b.ahead {
		t.Error("without a window nobody waits for the answer to the header")
	}
}

// An endless stream is one whose peer has always written more.
type endless struct {
	*fakeStream
	most *int // bytes of the largest write
}

func (s endless) Within() bool { return true }

func (s endless) Write(p []byte) (int, error) {
	*s.most = max(*s.most, len(p))
	return s.fakeStream.Write(p)
}

// receiver is the run of the second of two hosts that send each other size bytes in chunks.
func receiver(t *testing.T, size int64, chunk int) *run {
	t.Helper()
	p := ringPlan(2)
	p.MessageBytes = size
	j := newJob(t, rand.New(rand.NewPCG(1, 71)), p, chunk)
	e, err := New(Config{Self: p.Hosts[1], Open: func(context.Context, string, int) (Stream, error) { return nil, errBroken }})
	if err != nil {
		t.Fatal(err)
	}
	x, err := newRun(t.Context(), e, j.parts[1], j.data[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.cancel(nil) })
	return x
}

// TestAnswersAreBounded: a peer that never stops asking gets its answers, and they do not pile up.
func TestAnswersAreBounded(t *testing.T) {
	x := receiver(t, 1000, 100)
	const asks = 5000
	a, b := fakePair(1 << 20)
	if _, err := a.Write(bytes.Repeat((&frame{kind: frameAsk}).appendTo(nil), asks)); err != nil {
		t.Fatal(err)
	}
	a.Close()
	most := 0
	x.receive(x.peers["host0"], 0, newFrameReader(b), endless{b, &most})
	one := len(x.holdings(x.peers["host0"], nil))
	if all := len(a.in.buf); most >= mostAnswers+one || all < (asks-1)*one-mostAnswers {
		t.Errorf("%d answers of %d bytes: %d were written, up to %d at once", asks, one, all, most)
	}
}

// TestAnswersComeInOrder: what is read of a chunk is answered at once after what was gathered before, and nothing twice.
func TestAnswersComeInOrder(t *testing.T) {
	const chunk, all = 700, 300_000
	const least = 5 // bytes of an answer to that many: its kind, and two numbers
	x := receiver(t, all, chunk)
	from := x.peers["host0"]
	var in *block
	for _, b := range x.number {
		if b != nil && b.recv != nil && b.recv.from == from {
			in = b
		}
	}
	out := (&frame{kind: frameTell, number: 1}).appendTo(nil) // after every byte
	for i := range in.chunks {
		size := in.size(i, chunk)
		out = (&frame{kind: frameChunk, number: in.number, index: i, n: size}).appendTo(out)
		out = append(out, make([]byte, size)...)
	}
	a, b := fakePair(1 << 20)
	if _, err := a.Write(out); err != nil {
		t.Fatal(err)
	}
	a.Close()
	most := 0
	x.receive(from, 0, newFrameReader(b), endless{b, &most})
	r, last, parts := newFrameReader(bytes.NewReader(a.in.buf)), 0, 0
	for n := 0; ; n++ {
		var f frame
		if err := r.next(&f); err != nil {
			t.Logf("%d answers, %d of parts of chunks", n, parts)
			if err != io.EOF || last < all-mostAnswers/least*chunk || parts == 0 {
				t.Errorf("after the answer to %d bytes of %d, %d of parts: %v", last, all, parts, err)
			}
			return
		}
		if f.kind != frameGot {
			continue
		}
		if f.number < last || n > 0 && f.number == last {
			t.Fatalf("an answer to %d bytes after %d", f.number, last)
		}
		if last = f.number; last%chunk != 0 {
			parts++
		}
	}
}

// TestEndsTogether: between hosts of one site that need one stream, its end goes out with the last chunks, and that of the other side with the answers. Between sites the openers of streams
// end them when all is confirmed.
func TestEndsTogether(t *testing.T) {
	const hosts, chunk = 5, 1000
	for _, near := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := &plan.Plan{Collective: plan.Alltoall, Hosts: hostNames(hosts), MessageBytes: chunk}
			for s := range hosts {
				for d := range hosts {
					if s != d {
						p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: s, Dst: d, Blocks: []plan.Block{{Origin: s, Dest: d}}})
					}
				}
			}
			g := newFakeGrid(t, p.Hosts, func(c *Config) {
				if near {
					c.Site = oneSite
				}
			})
			g.limit = 1 << 20
			g.units = new(atomic.Int64)
			j := newJob(t, rand.New(rand.NewPCG(1, 72)), p, chunk)
			_, errs := g.run(t.Context(), j)
			for h, err := range errs {
				if err = errors.Join(err, j.check(h)); err != nil {
					t.Error(err)
				}
			}
			g.accepts.Wait()
			const pairs = hosts * (hosts - 1)
			writes, ends := g.units.Load(), g.ends.Load()
			if near && (writes != 2*pairs || ends != 2*pairs) || !near && (writes <= 2*pairs || ends > pairs) {
				t.Errorf("near %t: %d writes, of which %d end a stream, for %d pairs", near, writes, ends, pairs)
			}
		})
	}
}

// TestEndsTooSoon: who ends its stream while something of what it sends is missing hears how the run ends.
func TestEndsTooSoon(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := receiver(t, 1000, 100)
		a, b := fakePair(1 << 20)
		a.Write((&frame{kind: frameAsk}).appendTo(nil))
		a.Close()
		over := make(chan bool)
		far := unitStream{b, new(atomic.Int64), new(atomic.Int64)}
		go func() { over <- x.receive(x.peers["host0"], 0, newFrameReader(b), far) }()
		synctest.Wait()
		select {
		case <-over:
			t.Fatal("the stream is read no more before the run has ended")
		default:
		}
		if far.writes.Load() != 1 {
			t.Errorf("%d answers before", far.writes.Load())
		}
		x.cancel(errBroken)
		if <-over || far.ends.Load() > 0 {
			t.Error("the stream has ended in order")
		}
	})
}
