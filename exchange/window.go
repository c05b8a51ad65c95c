package exchange

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// maxWindow bounds what may be under way to one host: four bandwidth-delay products of 10
// Gbit/s over 100 ms.
const maxWindow = 1 << 29

const (
	// leastSlice is the least that is written at once on a far path, in bytes: two packets of
	// 1,240. A slice that filled its last packet by half only would cost a header for nothing, so it is
	// two packets of another size where the connection knows it.
	leastSlice = 2480
	// minPacket and maxPacket are what a packet may be said to carry: QUIC's have 1,200 bytes at least (RFC 9000, §14), and
	// the peer has its say.
	minPacket, maxPacket = 1100, 8 << 10
	// leastSlices is what a window holds at least. Of eight flows that begin together it is 64
	// packets, which is what a slow link's queue has room for.
	leastSlices = 4
	// yieldQueue is the queue that all flows aim at together where answers to what comes the other way wait behind it.
	yieldQueue = 50 * time.Millisecond
	// sliceParts is into how many slices the first window is cut at least, and laneParts how many each
	// lane's part of it: so many answers come in a round trip, and what the lanes are writing does not
	// fill the window.
	sliceParts = 16
	laneParts  = 4
)

// leastQueue is the queue, in bytes, from which on a window is made smaller; a quarter of it is what
// it aims at. Under way must be, beside what a round trip takes, what comes between two answers and what these
// wait for behind data of their own direction, and neither shows in the queue ahead. With 3 kB
// flows that the network holds to 1.25 Mbit/s got 65 % of that where both directions were full
// (docs/design/lanes.md). Of eight flows over one slow link the least window has the say.
const leastQueue = 8 * leastSlice

// linkQueue is what leastQueue is of all flows that share the queue of a link: a quarter of it, which they aim at together, is half of
// what a slow link's queue of 64 packets has room for.
const linkQueue = 64 * leastSlice

// A window bounds the bytes to one host that it has not answered, over all lanes, so that a
// link's queue holds a few packets of every flow and not all that it has room for.
//
// Why it is here: quic-go begins with 32 packets in flight, goes on after a pause with
// what it had before, and grows until packets are lost. Eight hosts that begin together
// throw 256 packets at a queue of 64. Those that lose most go on with a window of two
// packets, finish last, and need a second alone on the link to fill it again; start
// messages and gossip are lost too.
//
// Chunks are written in slices, and the peer answers about as often: counted in chunks of 8 KiB a
// window of 1.6 chunks is one chunk, which waits for its answer while the link idles. Eight
// flows of 1.25 Mbit/s and 100 ms got 40 % of their path so, and get 95 % now (docs/design/lanes.md).
//
// The rule is that of Vegas (Brakmo, O'Malley & Peterson, SIGCOMM 1994, §3.2): of the
// bytes in flight the share 1 − base/rtt stands in queues; see adjust. But rtt is not what passes
// until the answer: both directions of a path carry data in an exchange, and the queue that answers
// stand in would hold back the other direction as well, so that both went at the rate of the slower.
// Answers carry the receiver's clock, and rtt is base and what a slice took to get there longer than the
// quickest one did; the clocks need not agree (as in LEDBAT, RFC 6817, §2.1). It is the least of a round: a slice that
// waits for a retransmission says nothing of queues. A window only ever holds back; congestion control
// has its say in any case.
//
// All runs to a host share one: see tap.go. The nil window bounds nothing.
type window struct {
	mu       sync.Mutex    // guards everything below; taken under run.mu, and under windows.mu
	taps     []*tap        // of the runs that use it
	line     []*outLane    // that wait for room, where there are several
	reserved int64         // bytes that were given to lanes and not written
	virtual  int64         // what the run that was served last had been served
	recent   time.Duration // time of the quickest slice since turned
	turned   time.Time
	clocked  bool
	ref      time.Duration // times by two clocks are counted from this one, which was the first

	slice     int64
	limit     int64 // bytes, at least floor slices
	floor     int64
	queue     int64              // bytes: leastQueue, or less where many share a queue
	step      int64              // bytes after which the peer is to answer, beside the ends of chunks
	sent, got int64              // bytes of chunks: written, and answered or given up
	stuck     int64              // of what is between them, what losses hold: it is in no queue
	small     int64              // the least slice
	part      float64            // of what the path carries, this host's, bytes a second, where answers are late; 0: they are not, see [Path.answersLate]
	rate      netmap.BytesPerSec // of the path
	base      time.Duration      // round trip of a slice without queues
	least     time.Duration      // time of the quickest slice, at most, by the clocks of both ends
	best      time.Duration      // that of the quickest of this round, at least
	most      time.Duration      // and at most
	trips     [4]time.Duration   // from slices to their answers, the last ones, by this host's clock alone; 0: none
	round     int64              // the round ends when got comes here
	pressed   bool               // in this round the window held something back
	settling  bool               // the window changed when this round began: its times are of both
	tight     bool               // the last round that was judged held something back, and there was a queue
	late      time.Duration      // that its quickest slice stood in
}

// newWindow returns the window to a host that lanes lanes serve over p, nil where p does not
// say enough. chunk is in bytes.
func newWindow(p Path, lanes, chunk int) *window {
	if !p.known() {
		return nil
	}
	w := &window{least: math.MaxInt64, best: math.MaxInt64, most: math.MaxInt64, recent: math.MaxInt64, small: twoPackets(p.Packet)}
	w.floor = leastSlices
	if p.yields {
		w.small, w.floor = w.small/2, 1
	}
	share := w.serve(lanes, p, chunk)
	w.limit = max(share, w.loop(p, lanes, share)) + w.slice
	w.limit = max(w.limit, w.floor*w.slice)
	if p.spaced {
		// What comes between two answers, and the slice that waits for its turn, are under way as well, and there is no queue for windows to go by.
		w.limit = max(w.limit, share+w.step+2*w.slice)
	}
	w.rate = p.capacity()
	w.queue = leastQueue
	if !p.held() {
		w.queue = min(leastQueue, linkQueue/int64(max(p.Flows, 1)))
	}
	if p.yields {
		w.queue = min(w.queue, int64(float64(w.rate)*yieldQueue.Seconds())/int64(max(p.Flows, 1)))
	}
	w.base = p.RTT + p.Rate.Time(w.slice)
	return w
}

// twoPackets is the least slice, in bytes, where a packet carries so many of a stream; 0: that is not known.
func twoPackets(packet int) int64 {
	if packet < minPacket {
		return leastSlice
	}
	return 2 * int64(min(packet, maxPacket))
}

// loop returns what w must hold for this host's part of a path on which the network or losses hold each flow, where answers stand behind what comes the
// other way: a round trip is at least what the least windows there take over it, and who has less than that under way gets less than his part. It
// adds no more to share than the link's queue has room for, since nothing may come the other way. Where one flow fills the path, windows that begin
// larger only push those of the other direction up, and the link that has more to carry ends later.
func (w *window) loop(p Path, lanes int, share int64) int64 {
	if p.Back <= 0 || !p.held() {
		return 0
	}
	flows := int64(max(p.Flows, 1))
	back := p.Back.Time(flows * leastSlices * w.small)
	return min(int64(min(p.portion(lanes)*back.Seconds(), maxWindow)), share+linkQueue/2/flows)
}

// serve sets the slice for lanes lanes: what is being written by all of them is not to fill the window.
// It returns the share of p that they have in flight together.
func (w *window) serve(lanes int, p Path, chunk int) (share int64) {
	if w == nil {
		return 0
	}
	share = int64(min(p.share(lanes), maxWindow))
	if p.answersLate() {
		w.part = p.portion(lanes)
	}
	w.slice = min(max(share/max(sliceParts, laneParts*int64(lanes)), w.small), int64(chunk))
	// An answer and its acknowledgement are 124 bytes on the wire, which is 5 % of a slice.
	if w.step = w.slice; lanes == 1 {
		w.step = w.slice * 5 / 2
		if c := int64(chunk); c <= w.slice*7/2 && 3*c <= share {
			w.step = max(w.step, c) // at the ends of chunks, and not shortly before as well
		}
	}
	return share
}

// room reports whether n bytes more may go out.
func (w *window) room(n int64) bool {
	if w == nil || w.sent+w.reserved == w.got {
		return true
	}
	under := w.sent + w.reserved - w.got - w.stuck
	for _, l := range w.line {
		under -= l.turn.silent
	}
	if under+n <= w.limit {
		return true
	}
	w.pressed = true
	return false
}

// wrote notes that n bytes go out.
func (w *window) wrote(n int64) {
	if w != nil {
		w.sent += n
	}
}

// answered notes that the peer has read n bytes more. The quickest of the slices that end there took took at least and most at most, by the clocks of both
// ends; math.MaxInt64 if none does. What is late is so by what it took at least, and what others are compared with is what one took at most: taken for quicker than it
// was, a single slice would make all others late for minutes.
func (w *window) answered(n int64, took, most time.Duration) {
	if w == nil {
		return
	}
	w.got += n
	w.best, w.most = min(w.best, took), min(w.most, most)
	if w.got >= w.round && w.best < math.MaxInt64 {
		before := w.limit
		if !w.settling {
			w.adjust()
		}
		// What a larger window lets go at once still meets the queue of the smaller one.
		w.settling = w.limit != before
		w.round, w.best, w.most, w.pressed = w.sent+max(0, w.limit-before), math.MaxInt64, math.MaxInt64, false
	}
}

// fill notes that a slice was answered trip after it had gone out, and that it took so long to get there by the clocks of both ends. On a path that is slower
// the other way answers stand in the queue of what comes there, and more must be under way for this host's part of
// the path. What the slice itself stood in queues ahead is not counted, and where there is one already nothing is done, or windows would make those longer. Of 4 hosts over 10 Mbit/s there
// and 2 back, whose round trips took 200 ms instead of 55, windows that grew by half every other round left 40 % of the first 1.5 s unused. The least of a few counts: an answer may have been lost.
func (w *window) fill(trip, took time.Duration) {
	if w.part == 0 || trip == math.MaxInt64 || w.least == math.MaxInt64 {
		return
	}
	copy(w.trips[1:], w.trips[:])
	w.trips[0] = trip - max(took-w.least, 0)
	if more := w.covering(slices.Min(w.trips[:])); w.pressed && more > w.limit && w.queued(w.late) < w.some()/2 {
		w.limit = more
	}
}

// covering returns what must be under way for this host's part of the path where answers take so long.
func (w *window) covering(trip time.Duration) int64 {
	return int64(min(w.part*trip.Seconds(), maxWindow)) + w.slice
}

// queued returns how much of the window stands in queues ahead, in bytes, where slices are late by so much.
func (w *window) queued(late time.Duration) int64 {
	late = max(min(late, time.Hour), 0) // whatever clock the peer claims to have
	return int64(float64(w.limit) * (1 - float64(w.base)/float64(w.base+late)))
}

// some is what of it is to be in queues at most: parts of it are the bounds of adjust. It is a part of what comes between two answers, and leastQueue at least.
func (w *window) some() int64 { return max(w.slice, w.step/2, w.queue) }

// burst is how long the last of what a window holds at least waits for the others when all of it goes out at once.
func (w *window) burst() time.Duration {
	if w.rate <= 0 {
		return 0
	}
	return w.rate.Time((w.floor - 1) * w.small)
}

// adjust ends a round.
func (w *window) adjust() {
	w.least = min(w.least, w.most)
	w.late = max(min(w.best-w.least, time.Hour), 0)
	queued, some := w.queued(w.late), w.some()
	w.tight = w.pressed && queued >= some/4
	switch {
	case queued > some:
		w.limit = max(w.floor*w.slice, w.limit-(queued-some/2)/2)
	case !w.pressed || w.limit > maxWindow:
	case queued < some/4:
		w.limit += w.limit / 2 // alone, or newly so
	case queued < some/2:
		w.limit += some / 2
	}
}
