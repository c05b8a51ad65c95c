package exchange

import (
	"fmt"
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Path is what is believed of the way to a host before the first byte goes there.
type Path struct {
	// RTT is the round trip without queues. Zero means that it is unknown or too short to
	// matter: then only the connection's congestion control holds the data back.
	RTT time.Duration
	// Rate is what one flow gets alone; zero means unknown, with the same effect.
	Rate netmap.BytesPerSec
	// Flows is how many streams are likely to share the slowest link of the path, this
	// one included. Zero means 1. Too many cost a short transfer a round trip or two of
	// growth, too few cost losses at the start.
	Flows int
}

// farther is how many times as far as it is believed to be a host may seem at most: the
// handshake of a connection that is new may have met a queue.
const farther = 4

// over returns p as s, a stream just opened, knows it better: the least round trip that its
// connection has seen is no shorter than the path's. Believed half as long as it is, a
// path would seem to be all queue, and its window would go down to a chunk.
func (p Path) over(s Stream) Path {
	if m, ok := s.(measured); ok && p.RTT > 0 {
		p.RTT = max(p.RTT, min(m.Stats().MinRTT, farther*p.RTT))
	}
	return p
}

// A window bounds the bytes of one stream that the peer has not answered, so that a
// link's queue holds a few packets of every flow and not all that it has room for.
//
// Why it is here: quic-go begins with 32 packets in flight, goes on after a pause with
// what it had before, and grows until packets are lost. Eight hosts that begin together
// throw 256 packets at a queue of 64. Those that lose most go on with a window of two
// packets, finish last, and need a second alone on the link to fill it again; start
// messages and gossip are lost too. On the grid of Gupta & Vadhiyar (blocks of 64 KiB, 24
// runs) an allgather lost 180 to 990 packets on its slowest link and took 4.4 to 5.6 s;
// with windows it loses up to 80 and takes 4.4 to 4.8 s.
//
// The rule is that of Vegas (Brakmo, O'Malley & Peterson, SIGCOMM 1994, §3.2): of the
// bytes in flight the share 1 − base/rtt stands in queues; see adjust. rtt is the least
// of a round: a chunk that waits for a retransmission says nothing of queues. A window
// only ever holds back; congestion control has its say in any case.
//
// Guarded by run.mu. The nil window bounds nothing.
type window struct {
	chunk     int64
	limit     int64 // bytes, at least a chunk
	sent, got int64 // chunk bytes of this stream: written, and answered
	marks     []mark
	base      time.Duration // least time from the writing of a chunk to its answer
	best      time.Duration // the least of this round
	round     int64         // the round ends when got comes here
	pressed   bool          // in this round the window held something back
	settling  bool          // the window changed when this round began: its times are of both
}

// A mark says when the chunk that ends at byte end was written.
type mark struct {
	end int64
	at  time.Time
}

// newWindow returns nil where p does not say enough. chunk is in bytes.
func newWindow(p Path, chunk int) *window {
	if p.RTT <= 0 || !(p.Rate > 0) {
		return nil
	}
	share := float64(p.Rate) * p.RTT.Seconds() / float64(max(p.Flows, 1))
	return &window{
		chunk: int64(chunk),
		limit: max(int64(chunk), int64(min(share, maxBytes))),
		base:  p.RTT + time.Duration(min(float64(chunk)/float64(p.Rate)*1e9, 1e15)),
		best:  math.MaxInt64,
	}
}

// full reports whether the next chunk has to wait for an answer.
func (w *window) full() bool {
	if w == nil || w.sent == w.got || w.sent-w.got+w.chunk <= w.limit {
		return false
	}
	w.pressed = true
	return true
}

// wrote notes that a chunk of n bytes goes out.
func (w *window) wrote(n int, now time.Time) {
	if w == nil {
		return
	}
	w.sent += int64(n)
	w.marks = append(w.marks, mark{w.sent, now})
}

// answered notes that the peer has read got bytes in all. Its error is errMalformed.
func (w *window) answered(got int64, now time.Time) error {
	if w == nil || got < w.got || got > w.sent {
		return fmt.Errorf("%w: answer to %d bytes, which were not sent or not asked about", errMalformed, got)
	}
	w.got = got
	for len(w.marks) > 0 && w.marks[0].end <= got {
		w.best = min(w.best, now.Sub(w.marks[0].at))
		w.marks = w.marks[1:]
	}
	if got >= w.round && w.best < math.MaxInt64 {
		before := w.limit
		if !w.settling {
			w.adjust()
		}
		// What a larger window lets go at once still meets the queue of the smaller one.
		w.settling = w.limit != before
		w.round, w.best, w.pressed = w.sent+max(0, w.limit-before), math.MaxInt64, false
	}
	return nil
}

// adjust ends a round. The bounds are parts of a chunk: half a chunk of each of eight
// flows is what a queue of 64 packets can hold and keeps the link busy between answers.
func (w *window) adjust() {
	w.base = min(w.base, w.best)
	queued := int64(float64(w.limit) * (1 - float64(w.base)/float64(max(w.best, 1))))
	switch {
	case queued > w.chunk:
		w.limit = max(w.chunk, w.limit-(queued-w.chunk/2)/2)
	case !w.pressed || w.limit > maxBytes:
	case queued < w.chunk/4:
		w.limit *= 2 // alone, or newly so
	case queued < w.chunk/2:
		w.limit += w.chunk / 2
	}
}
