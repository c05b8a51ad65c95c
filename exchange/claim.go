package exchange

import "time"

// claim takes the right to write chunk i of b. It returns false if the chunk is here
// already, or if the run has ended. While another stream is reading the same chunk it
// waits for how that ends: were the second copy dropped and the first broken off,
// nobody would send a third.
func (x *run) claim(b *block, i int) (memory, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for b.claimed.has(i) && x.ctx.Err() == nil {
		x.claims.Wait()
	}
	if b.have.has(i) || x.ctx.Err() != nil {
		b.recv.from.stats.Duplicates += int64(b.size(i, x.part.Chunk))
		return memory{}, false
	}
	b.claimed.set(i)
	x.begun(b.recv)
	if b.Role == Forward && b.mem.pieces == nil {
		b.mem = memory{pieces: [][]byte{make([]byte, b.Size)}, starts: []int64{0}}
	}
	return b.mem, true
}

// begun needs x.mu.
func (x *run) begun(r *recv) {
	if !r.started {
		r.started, r.start = true, time.Since(x.start)
	}
}

// holdings answers an ask: what of p's transfers has arrived.
func (x *run) holdings(p *peer, out []byte) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	runs := 0
	for _, r := range p.recvs {
		if r.left == 0 {
			out = (&frame{kind: frameDone, number: r.ID}).appendTo(out)
			continue
		}
		for _, i := range r.Blocks {
			b := x.blocks[i]
			for first, n := b.have.run(0, b.chunks+1); n > 0 && runs < maxRuns; first, n = b.have.run(first+n, b.chunks+1) {
				out = (&frame{kind: frameHave, number: b.number, index: first, n: n}).appendTo(out)
				runs++
			}
		}
	}
	return append(out, frameEnd)
}
