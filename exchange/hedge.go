package exchange

import (
	"hash/crc32"
	"time"
)

// The last bytes of a transfer on the slowest of several lanes hold up all of it. A lane to
// the same peer that has nothing else to do therefore writes them once more: receivers drop
// what they have. That is what Dean & Barroso call hedged requests (The tail at scale,
// CACM 56(2), 2013).

// maxCopies is how often an entry is written at most, beside the first time.
const maxCopies = 2

// hedgeShare is the part of what was sent that may be written again, beside two chunks, until it must be hedgePatience times as late: where losses keep lanes slow all the time, every
// chunk is late, and copies of them all would take 20-40 % of the link from fresh data.
const (
	hedgeShare    = 16
	hedgePatience = 3
)

// A flight is an entry that a lane has been given and that the peer has not answered.
type flight struct {
	sb     *sendBlock
	index  int
	end    int64     // of the lane's chunk bytes; for a checksum, of what comes behind it
	from   time.Time // when the lane was given it
	at     time.Time // when the transport had taken it; zero: not yet
	copies int       // how often it was written before
	copied bool      // another lane has taken it
}

// flies notes an entry of n chunk bytes that l is given.
func (l *outLane) flies(sb *sendBlock, index, n, copies int, now time.Time) {
	if l.win == nil {
		return
	}
	l.taken += int64(n)
	f := flight{sb: sb, index: index, end: l.taken, from: now, copies: copies}
	if n == 0 {
		// The answer to the next chunk shows that the checksum was read: streams keep order.
		f.end, f.at = l.taken+1, now
	}
	l.flights, l.nudges = append(l.flights, f), 0
}

// wrote notes that a chunk of n bytes goes out.
func (l *outLane) wrote(sb *sendBlock, index, n, copies int, now time.Time) {
	l.flies(sb, index, n, copies, now)
	l.meter.wrote(n, now)
}

// handed notes that the transport has taken the newest chunk of a run that began at start.
func (l *outLane) handed(now, start time.Time) {
	l.passed(now.Sub(start))
	l.meter.handed(now)
	for i := len(l.flights) - 1; i >= 0 && l.flights[i].at.IsZero(); i-- {
		l.flights[i].at = now
	}
}

// landed notes that the peer has read got bytes of l's chunks.
func (l *outLane) landed(got int64) {
	n := 0
	for n < len(l.flights) && l.flights[n].end <= got {
		l.flights[n].sb.landed(l.flights[n].index)
		n++
	}
	l.flights = l.flights[n:]
}

// hedge returns an entry that another lane to p has under way for too long, for l to write as
// well. It needs x.mu.
func (x *run) hedge(p *peer, l *outLane, now time.Time) (work, bool) {
	if x.doubt.unsure || l.win == nil || len(p.outs) < 2 || l.pacer != nil && !l.pacer.idle(now) && !p.allOut() {
		return work{}, false
	}
	var slow *flight
	var from *outLane
	patience := p.patience()
	if p.stats.Hedged > p.stats.Sent/hedgeShare+2*int64(x.part.Chunk) {
		patience *= hedgePatience // only what a lane that is all but dead holds
	}
	for _, o := range p.outs {
		if o == l || len(o.flights) == 0 {
			continue
		}
		if f := o.oldest(); f != nil && now.Sub(o.copied) >= patience/4 && (slow == nil || f.late(patience).Before(slow.late(patience))) {
			slow, from = f, o
		}
	}
	if slow == nil || now.Before(slow.late(patience)) {
		return work{}, false
	}
	slow.copied, from.copied = true, now
	sb, i := slow.sb, slow.index
	sb.by[i] = uint8(1 + l.n) // if that breaks, it is lost, and asked about
	sb.s.writing++
	if i == sb.b.chunks {
		l.flies(sb, i, 0, slow.copies+1, now)
		return work{kind: frameSum, sb: sb, index: i}, true
	}
	n := sb.b.size(i, x.part.Chunk)
	l.wrote(sb, i, n, slow.copies+1, now)
	p.stats.Hedged += int64(n)
	return work{kind: frameChunk, sb: sb, index: i, mem: sb.b.mem}, true
}

// allOut reports whether every entry for p was given to a lane. Copies are then all that is left, and wait in the pacer's line: looked at every
// 25 ms, it was never idle while another peer's copies were in it, and the last bytes of a pair waited 170 ms. It needs run.mu.
func (p *peer) allOut() bool {
	for _, s := range p.sends[p.first:] {
		if !s.confirmed && s.unsent > 0 {
			return false
		}
	}
	return true
}

// late returns from when on f is late: it has been under way for patience, or has not been written in
// several times that, which no lane that works takes.
func (f *flight) late(patience time.Duration) time.Time {
	if f.at.IsZero() {
		return f.from.Add(4 * patience)
	}
	return f.at.Add(patience)
}

// oldest returns the first flight of l that may be copied, nil if there is none.
func (l *outLane) oldest() *flight {
	for i := range l.flights {
		f := &l.flights[i]
		if !f.copied && f.copies < maxCopies && !f.sb.s.confirmed && f.sb.by[f.index] == uint8(1+l.n) {
			return f
		}
	}
	return nil
}

// patience is how long bytes may be under way to p before losses, and no queue, are taken to hold
// them. It needs run.mu.
func (p *peer) patience() time.Duration {
	return max(p.trip, p.path.RTT) * 5 / 4
}

// A stage takes a chunk of one stream before its place is claimed. On lanes that hedge,
// the same chunk may come twice at a time, and the one that began first is the slow one. It
// costs a copy of each byte, which is little beside what QUIC takes.
type stage struct{ buf []byte }

// maxStage is the largest chunk, in bytes, that is staged: it bounds what a stream holds.
const maxStage = 1 << 20

// stageOf returns a stage for a stream of chunks of so many bytes, nil if they go to their place at once.
func stageOf(chunk int) *stage {
	if chunk > maxStage {
		return nil
	}
	return &stage{}
}

// receiveStaged is receiveChunk by way of r's stage.
func (x *run) receiveStaged(p *peer, b *block, r frameReader, f *frame, out []byte) ([]byte, error) {
	size := b.size(f.index, x.part.Chunk)
	if cap(r.stage.buf) < size {
		r.stage.buf = make([]byte, size, x.part.Chunk)
	}
	buf := r.stage.buf[:size]
	if err := r.chunk(buf, 0); err != nil {
		return out, err
	}
	crc := crc32.Checksum(buf, castagnoli)
	mem, ok := x.claim(b, f.index)
	if !ok {
		return out, nil
	}
	mem.put(int64(f.index)*int64(x.part.Chunk), buf)
	x.mu.Lock()
	defer x.mu.Unlock()
	b.claimed.clear(f.index)
	x.claims.Broadcast()
	return x.received(p, b, f.index, crc, out), nil
}

// put copies p to the block's offset off.
func (m *memory) put(off int64, p []byte) {
	for len(p) > 0 {
		n := copy(m.at(off, len(p)), p)
		p, off = p[n:], off+int64(n)
	}
}
