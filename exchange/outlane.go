package exchange

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"github.com/gridagent/gridagent/internal/headroom"
)

// Pauses before a broken stream is opened again: they double from the first to the last.
const (
	minPause = 20 * time.Millisecond
	maxPause = time.Second
)

// coalesce is the chunk size, in bytes, up to which frame and bytes are copied together
// and written at once. A larger chunk is written from its place, see [gatherer].
const coalesce = 1024

// An outLane is one open stream to a peer.
type outLane struct {
	n        int
	stream   Stream
	broken   bool       // guarded by run.mu
	by       string     // the host that carries it on; empty: none
	win      *tap       // the peer's; nil: none
	cond     *sync.Cond // the peer's
	turn     turn
	gathered bool    // it has frames that are not written, see [batch]; its goroutine's
	leaving  []*send // all of which is written, and others wait for it to leave, see [run.leave]; its goroutine's
	over     bool    // it has written its last; guarded by run.mu
	pacer    *pacer  // of all that go to the peer's site, or to the peer; nil: none
	meter    *meter  // nil: nobody wants to know
	doubled  bool    // what is written goes twice; its goroutine's

	counted counted // used where there is no window, see [run.setLevels]; guarded by run.mu

	// Guarded by run.mu, and used where there is a window: without one nobody answers.
	taken     int64     // chunk bytes that this stream was given
	sent, got int64     // of these: written, and answered
	slices    []mark    // of what is between them, in order
	flights   []flight  // entries between taken and got, in order
	heard     time.Time // when the last answer came
	ear       Ear
	nudges    int       // since something was written
	copied    time.Time // when another lane took a flight of this one to write it again
}

// lane serves one lane to p until nothing is left to send there or the run ends. It
// connects later by delay than it could.
func (x *run) lane(p *peer, n int, delay time.Duration, m *meter) {
	headroom.Grow()
	pause := minPause
	for first := true; x.awaitWork(p); first = false {
		if first && !sleep(p.ctx, delay) {
			return
		}
		began := time.Now()
		err := x.drive(p, n, m)
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if err == errLast {
			continue
		}
		x.eng.cfg.Log.Debug("data stream broken", "peer", p.name, "lane", n, "exchange", x.part.ID, "error", err)
		if time.Since(began) > 2*maxPause {
			pause = minPause
		}
		if !sleep(p.ctx, pause) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// sleep waits for d and returns true, or false as soon as ctx ends. It makes no timer of 0: in a bubble
// with the race detector Go 1.26 falls over one that is due when it is selected on.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitWork blocks until a stream to p is of use: ahead of the data, so that a
// handshake does not delay the first chunk, but not ahead of the synchronisations, so
// that the hosts do not all dial each other at once. It returns false if none will be.
func (x *run) awaitWork(p *peer) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		if p.open == 0 || x.ctx.Err() != nil {
			return false
		}
		if p.needAsk || p.budget > 0 {
			return true
		}
		for _, t := range p.tokens {
			if t.ready && t.by == 0 {
				return true
			}
		}
		for _, s := range p.sends[p.first:] {
			if !s.confirmed && s.waits == 0 && s.unsent > 0 {
				return true
			}
		}
		p.cond.Wait()
	}
}

// drive opens a stream and writes to it. It returns nil when nothing is left for p or
// the run has ended, errLast when nothing but answers may be missing that come another way, and otherwise the reason why the stream broke.
func (x *run) drive(p *peer, n int, m *meter) error {
	s, by, err := x.open(p, n)
	if err != nil {
		return err
	}
	if by != "" {
		m = nil // what the lane gets says nothing of the way that it is named after
	}
	l := x.opened(p, n, s, by, m)
	defer x.closed(p, l)
	stop := context.AfterFunc(p.ctx, func() {
		s.SetReadDeadline(time.Unix(1, 0)) // long past
		s.SetWriteDeadline(time.Now().Add(grace))
	})
	answers := make(chan error, 1)
	go func() { answers <- x.readAnswers(p, l) }() // ends with the stream; waited for below
	defer stop()
	err = x.write(p, l)
	if err == errLast {
		err = <-answers
		if err == io.EOF || p.ctx.Err() != nil {
			endRead(s)
			return errLast
		}
		answers <- err
	}
	if err == nil {
		s.Close()
		s.SetReadDeadline(time.Unix(1, 0)) // for readAnswers
		<-answers
		endRead(s)
	} else {
		// The peer may have said why it reads no more.
		s.SetReadDeadline(time.Now().Add(farewellTimeout))
		if p.ctx.Err() != nil {
			s.SetReadDeadline(time.Unix(1, 0))
		}
		if e := <-answers; errors.Is(err, errAnswers) {
			err = e
		}
		s.Abort()
		if p.ctx.Err() == nil {
			x.laneLost(p, l)
		}
	}
	return err
}

// endRead ends the reading side of a stream whose peer has nothing more to say, and is to end it.
func endRead(s Stream) {
	if e, ok := s.(interface{ EndRead() }); ok {
		e.EndRead()
		return
	}
	s.CloseRead()
}

// errLast says that a stream has ended with all that was to be sent on it.
var errLast = errors.New("stream is over")

// errAnswers stands for the error with which readAnswers has ended.
var errAnswers = errors.New("answers have stopped")

// write writes what is next until there is nothing more or the stream breaks.
func (x *run) write(p *peer, l *outLane) (err error) {
	b := x.batchOf(p, l)
	defer func() {
		b.wrote(err) // what was gathered and not written
		b.release()
	}()
	b.buf = header{id: x.part.ID, lane: l.n}.appendTo(b.buf)
	if x.ask(p, l) {
		b.buf = (&frame{kind: frameTell, number: l.step()}).appendTo(b.buf)
		x.greets(l)
	}
	if err := b.end(&work{}); err != nil {
		return err
	}
	if b.ahead {
		if err := b.flush(); err != nil {
			return err
		}
	}
	for {
		l.gathered = len(b.buf) > 0
		w := x.next(p, l)
		began := time.Now()
		switch w.kind {
		case workDone:
			return b.flush()
		case workLast:
			if err := b.last(); err != nil {
				return err
			}
			x.leave(p, l)
			return errLast
		case workBroken:
			return errAnswers
		case workStop:
			b.buf = (&frame{kind: frameFail, reason: x.reason()}).appendTo(b.buf)
			return b.flush()
		case workFlush:
			err = b.flush()
		case frameChunk:
			err = x.writeChunk(p, l, b, &w)
		case frameSum:
			err = b.sum(&w)
		default:
			b.buf = (&frame{kind: w.kind, number: w.token}).appendTo(b.buf)
			err = b.end(&w)
		}
		if err != nil {
			return err
		}
		x.leave(p, l)
		x.mu.Lock()
		p.stats.Network += time.Since(began)
		x.mu.Unlock()
	}
}

// checksum returns the checksum of b that this host passes on: its own, or the origin's.
func (x *run) checksum(b *block) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.recv == nil {
		return b.sum
	}
	return b.want
}

func (x *run) writeChunk(p *peer, l *outLane, to *batch, w *work) error {
	b := w.sb.b
	off := int64(w.index) * int64(x.part.Chunk)
	size := b.size(w.index, x.part.Chunk)
	if w.crc {
		x.sumChunk(b, w.index, w.mem.crc(off, size))
	}
	f := frame{kind: frameChunk, number: b.number, index: w.index, n: size}
	if to.spills || size <= max(coalesce, to.room-maxFrame) {
		if !to.spills && !to.fits(size) { // or it is alone
			if err := to.flush(); err != nil {
				to.work = append(to.work, *w)
				return err
			}
		}
		to.buf = f.appendTo(to.buf)
		for n := 0; n < size; {
			some := size - n
			if to.spills {
				if some = min(some, to.room-len(to.buf)); some <= 0 {
					if err := to.flush(); err != nil {
						to.work = append(to.work, *w)
						return err
					}
					continue
				}
			}
			piece := w.mem.at(off+int64(n), some)
			to.buf = append(to.buf, piece...)
			n, to.due = n+len(piece), to.due+len(piece)
		}
		return to.endWithSum(w)
	}
	if to.due > 0 {
		if err := to.flush(); err != nil {
			to.work = append(to.work, *w)
			return err
		}
	}
	to.work = append(to.work, *w)
	to.buf = f.appendTo(to.buf)
	for n := 0; n < size; {
		some := x.slice(p, l, size-n, n)
		for end := n + some; n < end; {
			piece := w.mem.at(off+int64(n), end-n)
			n += len(piece)
			if n == size && len(piece) <= mostTail {
				if sum, ok := to.sumBehind(w); ok {
					to.buf = append(to.buf, piece...)
					to.addSum(&sum)
					to.work = append(to.work, sum)
					return to.flush()
				}
			}
			if err := to.flushWith(piece); err != nil {
				return err
			}
		}
	}
	to.wrote(nil)
	return nil
}

// writeBoth writes head and then body, at once if s can.
func writeBoth(s Stream, head, body []byte) error {
	if g, ok := s.(gatherer); ok {
		_, err := g.WriteBoth(head, body)
		return err
	}
	for _, part := range [][]byte{head, body} {
		if len(part) > 0 {
			if _, err := s.Write(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// crc returns the CRC-32C of size bytes from the block's offset off.
func (m *memory) crc(off int64, size int) uint32 {
	var c uint32
	for n := 0; n < size; {
		piece := m.at(off+int64(n), size-n)
		c = crc32.Update(c, castagnoli, piece)
		n += len(piece)
	}
	return c
}
