package exchange

import "sync"

// Over TCP each write is a system call, a TLS record and, where nothing waits to be sent, a packet, however few bytes it has: a chunk of 1 KiB, its
// checksum and the answers to both were six. So what a lane has to say at one time goes out as one unit, and what a unit asks for is answered when
// all of it was read. quic-go gathers by itself.

// A costly stream is one for which it pays to gather up to so many bytes for one write. A [lane.TCPStream] is one.
type costly interface{ Gathers() int }

// A unitReader is a stream that knows whether the peer, when it wrote what was read last, wrote more behind it. A [lane.TCPStream] is one.
type unitReader interface{ Within() bool }

// An ender is a stream whose end costs nothing if it is written together with the last frames. A [lane.Stream] is one, and a [lane.TCPStream].
type ender interface{ WriteLast([]byte) error }

// leastGather is how much is gathered in any case, in bytes, and frameRoom what checksums and heads of frames take beside a chunk. Inside one site no more than
// a chunk is, where chunks are larger: who forwards them is to have them one by one. Where others are far it makes no difference.
const (
	leastGather = 4 << 10
	frameRoom   = 128
	wrapping    = 24 // what the frames of a chunk and of its checksum take beside it, mostly
)

// mostTail is how much of a chunk is copied at most so that its block's checksum goes with it.
const mostTail = 8 << 10

// mostAnswers is from how many bytes on answers go out although more is to come: a peer may write at once as much as it likes.
const mostAnswers = 1 << 10

// A batch is what a lane has said and not written yet. It is the lane's goroutine's.
type batch struct {
	x      *run
	l      *outLane
	p      *peer  // l's
	room   int    // bytes that are gathered; 0: each frame goes at once
	spills bool   // a chunk goes on in the next ones, so that all but the last are full
	buf    []byte // frames, the last of which may lack its chunk's bytes
	work   []work // of entries that are in buf
	due    int    // bytes of chunks in buf for which the window is still to be asked

	// ahead: the header goes before any data. The answer to it tells how long the way takes while nothing is in its queue; slices that come with
	// it have stood behind those of other lanes, and windows that take that for an empty queue overrun it. On ways that lose packets it
	// goes with the first data, which could not be read without it.
	ahead bool
}

func (x *run) batchOf(p *peer, l *outLane) *batch {
	b := &batch{x: x, l: l, p: p}
	switch s, ok := l.stream.(costly); {
	case l.win != nil: // which counts what was written, and times slices
		b.room = l.slice() + maxFrame - wrapping
		x.mu.Lock()
		if _, can := l.stream.(doubler); can && l.by == "" {
			l.doubled = x.doubles(p)
		}
		b.ahead = !p.loses
		x.mu.Unlock()
	case ok && l.pacer == nil:
		if b.room = s.Gathers(); x.mates() == len(x.part.Hosts) {
			b.room = min(max(leastGather, x.part.Chunk)+frameRoom, b.room)
		}
	case !ok && p.steady:
		b.room, b.spills = int(twoPackets(Path{}.over(l.stream).Packet)), true
	}
	b.buf = *batchBuffers.Get().(*[]byte)
	return b
}

// batchBuffers are the memory of batches: lanes come and go with every operation.
var batchBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, coalesce+maxFrame) // grows where more is gathered
	return &b
}}

// release ends b, which has written all.
func (b *batch) release() {
	buf := b.buf[:0]
	b.buf = nil
	batchBuffers.Put(&buf)
}

// fits reports whether a chunk of size bytes may be gathered with what is in b.
func (b *batch) fits(size int) bool { return len(b.buf)+maxFrame+size <= b.room }

// end notes that a frame in buf is complete, of w unless that is of no entry.
func (b *batch) end(w *work) error {
	if w.sb != nil {
		b.work = append(b.work, *w)
	}
	if b.fits(0) {
		return nil
	}
	return b.flush()
}

// addSum appends the frame of the checksum w.
func (b *batch) addSum(w *work) {
	b.buf = (&frame{kind: frameSum, number: w.sb.b.number, sum: b.x.checksum(w.sb.b)}).appendTo(b.buf)
}

// sumBehind takes the checksum of the block of the chunk w, which is about to be written, where it is all of the block that is left to be written: over a path whose
// packets count it goes in the chunk's last packet. It would have its own, and that an acknowledgement, which over a slow link is each a fortieth of 8 KiB.
func (b *batch) sumBehind(w *work) (work, bool) {
	if b.room > 0 && b.l.win == nil { // it is gathered as all else is
		return work{}, false
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	sb := w.sb
	if sb.s.confirmed || sb.ready != 1 || !sb.b.have.has(sb.b.chunks) || sb.sent.has(sb.b.chunks) {
		return work{}, false
	}
	return b.x.take(sb, b.l), true
}

// endWithSum is end for the chunk w.
func (b *batch) endWithSum(w *work) error {
	sum, ok := b.sumBehind(w)
	if !ok {
		return b.end(w)
	}
	b.work = append(b.work, *w)
	b.addSum(&sum)
	return b.end(&sum)
}

// sum gathers the checksum w, whole: what is full is written before.
func (b *batch) sum(w *work) error {
	if b.spills && len(b.buf)+wrapping > b.room {
		if err := b.flush(); err != nil {
			b.work = append(b.work, *w)
			return err
		}
	}
	b.addSum(w)
	return b.end(w)
}

// A doubler is a stream that sends what is written next twice, n bytes, where that is possible. A [lane.Stream] is one.
type doubler interface{ Twice(n int) }

// soonAgain is the part of a round trip that what crosses a link is to take at most to go there twice. The last of longer operations, as much as that, gained nothing that way (docs/design/lanes.md).
const soonAgain = 0.5

// doubles reports whether what goes to p does so twice: on a way that loses packets, where all that crosses its link is through long before the repair of one of them would be. It needs x.mu.
func (x *run) doubles(p *peer) bool {
	if !p.loses || !p.path.known() {
		return false
	}
	own, share := x.shareTo(p)
	return share > 0 && float64(own)/share <= soonAgain*p.path.RTT.Seconds()*float64(p.path.capacity())
}

// double says that n bytes of b are about to be written.
func (b *batch) double(n int) {
	if b.l.doubled {
		b.l.stream.(doubler).Twice(n)
	}
}

// await waits until the window has room for what was gathered.
func (b *batch) await() {
	for b.due > 0 {
		b.due -= b.x.slice(b.p, b.l, b.due, 0)
	}
}

// flush writes what was gathered.
func (b *batch) flush() (err error) {
	b.await()
	switch {
	case len(b.buf) == 0:
	case b.room > 0 && b.l.win == nil: // as the head of a unit, which is copied together with what TCP puts before it
		err = writeBoth(b.l.stream, b.buf, nil)
	default:
		b.double(len(b.buf))
		_, err = b.l.stream.Write(b.buf)
	}
	b.wrote(err)
	return err
}

// last writes what was gathered, and ends the writing side.
func (b *batch) last() error {
	b.await()
	err := b.l.stream.(ender).WriteLast(b.buf)
	b.wrote(err)
	return err
}

// flushWith writes what was gathered and piece, of the chunk whose head is the last that was.
func (b *batch) flushWith(piece []byte) error {
	b.double(len(b.buf) + len(piece))
	err := writeBoth(b.l.stream, b.buf, piece)
	b.buf = b.buf[:0]
	return err
}

// wrote notes that what was gathered was written, or could not be.
func (b *batch) wrote(err error) {
	b.buf = b.buf[:0]
	for i := range b.work {
		b.x.written(b.l, &b.work[i], err)
	}
	clear(b.work)
	b.work = b.work[:0]
}
