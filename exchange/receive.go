package exchange

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// maxRuns bounds the answer to one ask. Runs beyond it are sent again in vain, which
// costs bytes, not correctness.
const maxRuns = 4096

// serve reads a stream that the host called from has opened. It is not attached if the
// run has ended already. The outcome, if not nil, is for the opener: the run ended, or
// the opener was refused. If s is over both ends have ended it.
func (x *run) serve(from string, n int, r frameReader, s Stream) (o *outcome, attached, over bool) {
	x.mu.Lock()
	if x.ended {
		x.mu.Unlock()
		return nil, false, false
	}
	p := x.peers[from]
	if x.adapts() && (p == nil || !p.speaks()) {
		p = x.member(from)
	}
	if p == nil || !p.speaks() && !x.adapts() {
		x.mu.Unlock()
		x.eng.cfg.Log.Warn("data stream refused", "peer", from, "exchange", x.part.ID, "error", "the plan gives this host nothing from it")
		return &outcome{failure: fmt.Sprintf("%s expects nothing from %s", x.eng.cfg.Self, from)}, true, false
	}
	if old := p.in[n]; old != nil {
		// The sender has given the old stream up. Its reader lets go of what it claimed.
		old.Abort()
	}
	if n != newsLane {
		p.in[n] = s
	}
	x.readers.Add(1)
	x.mu.Unlock()

	stop := context.AfterFunc(x.ctx, func() {
		s.SetReadDeadline(time.Unix(1, 0)) // long past
		s.SetWriteDeadline(time.Now().Add(grace))
	})
	over = x.receive(p, n, r, s)
	stop()

	x.mu.Lock()
	if p.in[n] == s {
		delete(p.in, n)
	}
	x.mu.Unlock()
	defer x.readers.Done()
	return x.verdict(), true, over
}

// verdict returns what the opener of a stream that is read no more is told: nothing
// while the run goes on.
func (x *run) verdict() *outcome {
	if x.ctx.Err() == nil {
		return nil // the opener has finished or its lane broke
	}
	select {
	case <-x.done:
		return &outcome{}
	default:
		return &outcome{failure: x.reason()}
	}
}

// receive handles the frames of p on s until the stream or the run ends. An error of
// the stream is no error of the run: the opener comes back or has finished. If all that p sends is here when
// it ends s it has no more to hear: the end of this side goes out with the answers, and s is over. Else it hears of the end of the run.
func (x *run) receive(p *peer, n int, r frameReader, s Stream) (over bool) {
	var f frame
	tell := &teller{w: s, start: x.eng.made}
	r.part = tell.part
	unit, _ := s.(unitReader)
	if unit == nil { // answers go out before more is waited for
		r.br = bufio.NewReaderSize(&asking{tell, r.br}, readAhead)
	}
	var said []byte // in answer to one frame
	for {
		err := r.next(&f)
		if err == nil {
			tell.size = f.n
			said, err = x.handle(p, r, &f, said[:0]) // while a chunk comes tell.out may be written
			tell.out = append(tell.out, said...)
		}
		switch {
		case err != nil:
		case f.kind == frameTell:
			tell.begin(f.number)
			if f.number > 0 && r.stage == nil { // a far way: the chunk may come on another stream meanwhile
				r.stage = stageOf(x.part.Chunk)
				if unit == nil {
					r.br = bufio.NewReaderSize(r.br, farAhead)
				}
			}
		case f.kind == frameChunk:
			tell.chunk(f.n)
		}
		if err == nil && (len(tell.out) >= mostAnswers || unit != nil && r.br.Buffered() == 0 && !unit.Within()) {
			err = tell.flush()
		}
		if e, ok := s.(ender); ok && err == io.EOF {
			if x.hasAll(p) {
				return e.WriteLast(tell.out) == nil
			}
			if tell.flush() == nil {
				<-x.ctx.Done()
			}
			return false
		}
		if err != nil {
			if errors.Is(err, errMalformed) {
				x.misbehaved(p, err)
			}
			return false
		}
	}
}

// hasAll reports whether all that the plan has p send is here.
func (x *run) hasAll(p *peer) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range p.recvs {
		if r.left > 0 {
			return false
		}
	}
	for _, t := range x.tokens {
		if t.from == p && !t.seen {
			return false
		}
	}
	return true
}

// handle handles one frame and appends the answer to out.
func (x *run) handle(p *peer, r frameReader, f *frame, out []byte) ([]byte, error) {
	switch f.kind {
	case frameChunk:
		return x.receiveChunk(p, r, f, out)
	case frameSum:
		return x.receiveSum(p, f, out)
	case frameToken, frameLeft:
		return x.receiveToken(p, f, out)
	case frameAsk:
		return x.holdings(p, out), nil
	case frameTell:
		return out, nil // of the stream: see receive
	case frameOffer:
		return x.offered(p, f, out)
	case frameStanding, frameTogether:
		return x.stands(f, out)
	case frameFail:
		x.peerFailed(p, f.reason)
		return out, nil
	}
	return out, fmt.Errorf("%w: kind %#02x from the opener", errMalformed, f.kind)
}

// incoming returns the block of f, which p must be the one to deliver.
func (x *run) incoming(p *peer, f *frame) (*block, error) {
	b := x.number[f.number] // written only before the run starts
	if b == nil || b.recv == nil || b.recv.from != p && !x.adapts() {
		return nil, fmt.Errorf("%w: block %d, which host %d does not deliver here", errMalformed, f.number, p.index)
	}
	return b, nil
}

// receiveChunk reads a chunk to its place.
func (x *run) receiveChunk(p *peer, r frameReader, f *frame, out []byte) ([]byte, error) {
	b, err := x.incoming(p, f)
	if err != nil {
		return out, err
	}
	if f.index >= b.chunks {
		return out, fmt.Errorf("%w: chunk %d of block %d, which has %d", errMalformed, f.index, f.number, b.chunks)
	}
	size := b.size(f.index, x.part.Chunk)
	if f.n != size {
		return out, fmt.Errorf("%w: chunk %d of block %d has %d bytes, want %d", errMalformed, f.index, f.number, f.n, size)
	}
	if x.part.Lead > 0 {
		r.part = x.leading(b, f.index, r.part)
	}
	if r.stage != nil {
		return x.receiveStaged(p, b, r, f, out)
	}
	mem, ok := x.claim(b, f.index)
	if !ok {
		return out, r.skip(size)
	}
	crc, err := mem.receive(r, int64(f.index)*int64(x.part.Chunk), size)
	x.mu.Lock()
	defer x.mu.Unlock()
	b.claimed.clear(f.index)
	x.claims.Broadcast()
	if err != nil {
		return out, err
	}
	return x.received(p, b, f.index, crc, out), nil
}

// received records that chunk i of b is in its place. It needs x.mu.
func (x *run) received(p *peer, b *block, i int, crc uint32, out []byte) []byte {
	size := int64(b.size(i, x.part.Chunk))
	b.sum += sumWord(i, crc)
	p.stats.Received += size
	x.data.Progress.Received.Add(size)
	x.eng.spacings.answered(x.site(p.name), size, p.spacing, time.Now())
	return x.arrived(p, b, i, out)
}

// receive reads size bytes to the block's offset off and returns their CRC-32C.
func (m *memory) receive(r frameReader, off int64, size int) (uint32, error) {
	var c uint32
	for n := 0; n < size; {
		piece := m.at(off+int64(n), size-n)
		if err := r.chunk(piece, n); err != nil {
			return 0, err
		}
		c = crc32.Update(c, castagnoli, piece)
		n += len(piece)
	}
	return c, nil
}

func (x *run) receiveSum(p *peer, f *frame, out []byte) ([]byte, error) {
	b, err := x.incoming(p, f)
	if err != nil {
		return out, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.have.has(b.chunks) {
		if b.want != f.sum {
			return out, fmt.Errorf("%w: checksum %016x of block %d, it was %016x", errMalformed, f.sum, f.number, b.want)
		}
		return out, nil
	}
	b.want = f.sum
	x.begun(b.recv)
	return x.arrived(p, b, b.chunks, out), nil
}

// arrived records that entry i of b is here, from p: it can be forwarded, and it may have been
// the last of its block and of its transfer, which appends the answer to out. It needs x.mu.
func (x *run) arrived(p *peer, b *block, i int, out []byte) []byte {
	x.available(b, i)
	r := b.recv
	if i < b.chunks {
		r.missing -= int64(b.size(i, x.part.Chunk))
	}
	if r.missing <= x.part.Lead && x.part.Lead > 0 {
		x.tellOf(r)
	}
	if b.left--; b.left > 0 {
		return out
	}
	if b.sum != b.want {
		self := x.part.Hosts[x.part.Self]
		x.cancel(&TransferError{Transfer: r.ID, Src: r.from.name, Dst: self, Err: &ChecksumError{
			Origin: x.part.Hosts[b.Origin], From: r.from.name, Block: b.Block, Want: b.want, Got: b.sum,
		}})
		return out
	}
	if r.left--; r.left > 0 {
		return out
	}
	r.end = time.Since(x.start)
	x.shows()
	x.land()
	x.tellOf(r)
	if p != r.from {
		x.news(r)
		x.settle()
		return out
	}
	x.settle()
	return (&frame{kind: frameDone, number: r.ID}).appendTo(out)
}

// tellOf lets go what waits for r, here and elsewhere: r is complete, or lacks no more than the
// part's lead. It needs x.mu.
func (x *run) tellOf(r *recv) {
	if r.told {
		return
	}
	r.told = true
	x.tell(milestone{r.ID, false}, r.Notify)
	x.reached(milestone{r.ID, false})
}

// receiveToken answers every copy of a token: the first answer may have been lost.
func (x *run) receiveToken(p *peer, f *frame, out []byte) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := milestone{f.number, f.kind == frameLeft}
	t := x.tokens[m]
	if x.adapts() && !m.left && x.confirmed(p, f.number) {
		return (&frame{kind: frameSeen, number: f.number}).appendTo(out), nil
	}
	if t == nil || t.from != p {
		return out, fmt.Errorf("%w: token of transfer %d, for which nothing waits", errMalformed, f.number)
	}
	if !t.seen {
		t.seen = true
		x.reached(m)
	}
	kind := byte(frameSeen)
	if m.left {
		kind = frameLeftSeen
	}
	return (&frame{kind: kind, number: f.number}).appendTo(out), nil
}
