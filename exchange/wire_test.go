package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	frames := []frame{
		{kind: frameChunk, number: 300, index: 70000, n: 5},
		{kind: frameSum, number: 1, sum: 0xdeadbeefcafef00d},
		{kind: frameToken, number: maxNumber},
		{kind: frameAsk},
		{kind: frameTell},
		{kind: frameGot, number: 1 << 20, index: 1 << 30}, {kind: frameTell, number: 3600},
		{kind: frameGot, number: 3 << 40, index: maxNumber}, {kind: frameGot, number: maxBytes, index: 1},
		{kind: frameDone, number: 7},
		{kind: frameSeen, number: 8},
		{kind: frameHave, number: 0, index: 3, n: 9},
		{kind: frameEnd},
		{kind: frameOffer, host: 3, number: 300, index: 7, n: maxNumber}, {kind: frameTaken, host: maxNumber, number: 1, index: 2, n: 3},
		{kind: frameStanding, host: 5}, {kind: frameTogether, host: 70000},
		{kind: frameStands, number: maxNumber, index: 1 << 20, n: 9},
		{kind: frameComplete},
		{kind: frameFail, reason: "disk full"},
	}
	h := header{id: ID{1, 2, 3}, lane: 5}
	wire := h.appendTo(nil)
	for i := range frames {
		wire = frames[i].appendTo(wire)
		if frames[i].kind == frameChunk {
			wire = append(wire, "bytes"...)
		}
	}
	r := newFrameReader(bytes.NewReader(wire))
	if got, err := r.header(); err != nil || got != h {
		t.Fatalf("header: %+v, %v", got, err)
	}
	for _, want := range frames {
		var got frame
		if err := r.next(&got); err != nil || got != want {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		if got.kind == frameChunk {
			if err := r.skip(got.n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.next(new(frame)); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestBadFrames(t *testing.T) {
	for name, wire := range map[string]string{
		"kind":        "\x77",
		"number":      "\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"over limit":  "\x03\x81\x80\x80\x80\x80\x20",
		"clock":       "\x16\x00\x81\x80\x80\x80\x80\x20",
		"over bytes":  "\x16\x81\x80\x80\x80\x80\x80\x80\x02\x00",
		"more bytes":  "\x16\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00",
		"long reason": "\x05\x81\x04" + strings.Repeat("x", 513),
	} {
		err := newFrameReader(strings.NewReader(wire)).next(new(frame))
		if !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v, want a malformed frame", name, err)
		}
	}
	for _, wire := range []string{"\x01", "\x01\x05\x80", "\x02\x01\x01\x02", "\x05\x03ab"} {
		if err := newFrameReader(strings.NewReader(wire)).next(new(frame)); err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v, want an unexpected end", wire, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x03abc\x02\x0012345678\x04\x05\x03why"))
	f.Add([]byte("\x11\x01\x12\x02\x13\x01\x02\x03\x14\x15"))
	f.Add([]byte("\x08\x05\x09\x01\x02\x03\x04\x0a\x06\x18\x01\x02\x03\x19\x01\x02\x03\x04"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newFrameReader(bytes.NewReader(in))
		for {
			var a, b frame
			if r.next(&a) != nil {
				return
			}
			if err := newFrameReader(bytes.NewReader(a.appendTo(nil))).next(&b); err != nil || a != b {
				t.Fatalf("%+v became %+v, %v", a, b, err)
			}
			if a.kind == frameChunk && r.skip(min(a.n, 1<<20)) != nil {
				return
			}
		}
	})
}

// TestNextAndNot compares the search by words with one by entries.
func TestNextAndNot(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 30))
		n := 1 + rng.IntN(300)
		have, sent := newBitmap(n), newBitmap(n)
		for i := range n {
			if rng.IntN(3) > 0 {
				have.set(i)
				if rng.IntN(4) > 0 {
					sent.set(i)
				}
			}
		}
		want := -1
		for i := range n {
			if have.has(i) && !sent.has(i) {
				want = i
				break
			}
		}
		got, from := have.nextAndNot(sent, 0)
		if got != want {
			t.Fatalf("seed %d: entry %d, want %d", seed, got, want)
		}
		for w := range from {
			if bits.OnesCount64(sent[w]) != 64 {
				t.Fatalf("seed %d: word %d of sent is not full and would be passed over", seed, w)
			}
		}
		total := 0
		for first, k := have.run(0, n); k > 0; first, k = have.run(first+k, n) {
			total += k
			for i := first; i < first+k; i++ {
				if !have.has(i) {
					t.Fatalf("seed %d: run %d+%d holds %d, which is not set", seed, first, k, i)
				}
			}
		}
		count := 0
		for _, w := range have {
			count += bits.OnesCount64(w)
		}
		if total != count {
			t.Fatalf("seed %d: runs hold %d entries of %d", seed, total, count)
		}
	}
}

// TestSumCatches checks that the checksum tells every single-bit error and every
// exchange of two chunks.
func TestSumCatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 31))
	const chunk, n = 16, 8
	b := make([]byte, chunk*n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	sum := func() (s uint64) {
		m := memory{pieces: [][]byte{b}, starts: []int64{0}}
		for i := range n {
			s += sumWord(i, m.crc(int64(i*chunk), chunk))
		}
		return s
	}
	good := sum()
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if sum() == good {
			t.Fatalf("bit %d was flipped and the checksum is the same", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	swap := make([]byte, chunk)
	for i := range n {
		for k := range i {
			x, y := b[i*chunk:(i+1)*chunk], b[k*chunk:(k+1)*chunk]
			exchange := func() { copy(swap, x); copy(x, y); copy(y, swap) }
			exchange()
			if sum() == good {
				t.Fatalf("chunks %d and %d were exchanged and the checksum is the same", i, k)
			}
			exchange()
		}
	}
}

// TestChunksDoNotAllocate sends and receives chunks between two runs, without goroutines.
func TestChunksDoNotAllocate(t *testing.T) {
	p := ringPlan(2)
	p.MessageBytes = 4 << 20
	j := newJob(t, rand.New(rand.NewPCG(1, 32)), p, 4096)
	e := make([]*Engine, 2)
	x := make([]*run, 2)
	for h := range e {
		var err error
		if e[h], err = New(Config{Self: p.Hosts[h], Open: func(context.Context, string, int) (Stream, error) { return nil, errBroken }}); err != nil {
			t.Fatal(err)
		}
		if x[h], err = newRun(t.Context(), e[h], j.parts[h], j.data[h]); err != nil {
			t.Fatal(err)
		}
		defer x[h].cancel(nil)
	}
	a, b := fakePair(1 << 16)
	a.out.buf = make([]byte, 0, 64<<20) // the fake's own buffer is not to grow
	l := &outLane{stream: a}
	r := newFrameReader(b)
	out := make([]byte, 0, 64)
	var f frame
	to, from := x[0].peers["host1"], x[1].peers["host0"]
	gathered := x[0].batchOf(to, l)
	allocs := testing.AllocsPerRun(500, func() {
		w := x[0].next(to, l)
		if err := x[0].writeChunk(to, l, gathered, &w); err != nil {
			t.Fatal(err)
		}
		if err := r.next(&f); err != nil {
			t.Fatal(err)
		}
		if _, err := x[1].handle(from, r, &f, out); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a chunk, want none", allocs)
	}
	if got := j.data[1].Progress.Received.Load(); got != 501*4096 {
		t.Errorf("%d bytes have arrived, want 501 chunks", got)
	}
}
