package probe

import (
	"math"
	"sort"
	"time"
)

// What a reading of a bulk transfer must show to be believed.
const (
	// steadyParts is how many parts, of steadyTrips round trips each, are seen at least. A
	// flow that has not filled its path yet grows by more than half in each of them.
	steadyParts = 4
	steadyTrips = 4
	// steadyPackets is how many packets a part holds at least: samples cut between packets.
	steadyPackets = 10
	// steadyError is the relative standard error from which on a reading of a full link is
	// good enough: a little more costs little there.
	steadyError = 0.03
	// steadySecond is for how many seconds a full link is watched, unless that takes more than steadyBytes.
	steadySecond = 1.0
	steadyBytes  = 2e6
	// sharedTime is for how long a link is watched that strangers share. Their packets come at random, and to know their
	// rate takes many of them; but they may be a user's, who gets less meanwhile. It is longer, up to twice, where
	// the link carries fewer than sharedPackets in it.
	sharedTime    = 3 * time.Second
	sharedPackets = 330
	// sharedMany is the relative standard error that is good enough there for a point of a search, which need only be told from another.
	sharedMany = 0.10
	// sharedBursts is by how much strangers' packets wander more than if each came by itself, about.
	sharedBursts = 1.5
	// sureGain is how much of what more lanes may gain at most shows for sure that they gain.
	sureGain = 0.6
	// steadyUnsure is the least error of a rate that looks steady and was not seen for long enough.
	steadyUnsure = 0.3
	// steadyUnknown is the error of a rate of which too few parts were seen to tell it.
	steadyUnknown = 1
	// queueShare and queueLeast say from which waiting time on, relative to the round trip
	// and absolute, a queue stands before the narrowest link, so that it is never idle.
	queueShare = 0.1
	queueLeast = 500 * time.Microsecond
	// steadySwing is the share of the windows' swing up to which the rate does not follow them.
	steadySwing = 1. / 3
	// steadyGrowth is how many packets a lane's window may gain: in congestion avoidance it
	// gains one a round trip, and a reading takes 16; of a sender that is slow it stays.
	steadyGrowth = 4
	// maxParts bounds the work of a reading.
	maxParts = 256
)

// A sample says how many bytes of a transfer had arrived by an instant, on the receiver's
// clock, and what the sender knew when it was told.
type sample struct {
	at    time.Duration
	bytes int64
	lost  int64         // packets that the sender has declared lost
	rtt   time.Duration // smoothed, with the queues that there are; 0 if unknown

	window int64 // bytes, of the congestion windows of all lanes; 0 if unknown
}

// A bulkPath is what a reading has to know of the transfer that it reads.
type bulkPath struct {
	rtt    time.Duration // round trip without queues
	lanes  int           // flows that the transfer consists of
	packet int64         // bytes that arrive at once, at least
	after  time.Duration // what arrived before does not count: lanes were still starting
	want   float64       // relative standard error that is good enough where losses decide
	line   float64       // bytes a second of the link, as trains read it; 0 unknown
}

// A steady is what a transfer says of its steady state.
type steady struct {
	Rate   float64       // bytes a second; 0 where nothing can be said
	Spread float64       // relative standard error of Rate
	Enough bool          // seen long enough, and it does not grow any more
	From   time.Duration // where the part begins that was read
	Span   time.Duration // how long it is
	Shaped bool          // the rate fell for good (a token bucket ran empty); Rate is the later one
	Lost   int           // packets
	Cuts   int           // how often losses made the sender slow down, at most once a round trip and lane
	Queue  time.Duration // time that packets waited before the narrowest link; 0 if it will not last
	Grows  bool          // the windows grow, and nothing of the path is in their way yet

	Shared bool // the link is full, and strangers' packets take what the transfer leaves of it

	noise float64 // relative standard error as the parts alone say it
	lossy bool    // losses decide the rate
}

// queued reports whether packets always waited before the narrowest link, so that it and
// nothing else was the limit.
func (r steady) queued(p bulkPath) bool {
	return r.Queue > max(time.Duration(queueShare*float64(p.rtt)), queueLeast)
}

// limited reports whether nothing of the path was seen to be the limit, neither a queue nor
// a loss, and the windows had room: it was one of the hosts then.
func (r steady) limited(p bulkPath) bool {
	return r.Rate > 0 && r.Cuts == 0 && !r.Grows && !r.queued(p)
}

// readSteady returns the rate at which a transfer arrived once slow start was over. The
// samples are in order of time, and bytes never fall.
//
//   - Slow start ends where the rate of two round trips is less than a quarter above that
//     of the two before. Up to half of the rest is left out, too, where that makes the error
//     less (MSER; White, 1997): slow start may end in a heap of losses or far above what the
//     path bears, and what follows is no steady state.
//   - The error of the mean is that of the means of parts, for parts of every length from
//     steadyTrips round trips to a quarter of the whole, and the largest counts (batch means;
//     Law, Simulation Modeling and Analysis, §9.5). So short parts that agree by chance do
//     not end a measurement of a flow that losses cut at random, and parts shorter than a saw
//     tooth do not hide it.
//   - A flow whose window grows while it has met neither queue nor loss is not steady.
//   - Where no queue stands and the rate follows the windows, losses decide: the rate goes
//     with 1/√p (Mathis, Semke, Mahdavi and Ott, 1997), and from n losses p is known to 1/√n
//     at best. So the error is 1/(2√n) at least.
//   - Where the link is full and strangers share it the rate wanders as their packets do, however well a few parts agree.
//     So the error is at least what packets that come one by one at random make, and all is read from where the windows
//     have ended to double: while they do, the queue fills with this transfer's packets, and strangers get less than their share.
//   - Where two lines fit far better than one and the later is slower, only the later part is read.
//
// That a measurement may stop as soon as it knows enough is after NDT7.
func readSteady(ss []sample, p bulkPath) steady {
	i := sort.Search(len(ss), func(i int) bool { return ss[i].at >= p.after })
	ss = ss[i:]
	if len(ss) < 2 || p.rtt <= 0 || p.packet <= 0 {
		return steady{}
	}
	pace := (ss[len(ss)-1].at - ss[0].at) / time.Duration(len(ss)-1)
	from, ok := slowStartEnd(ss, max(2*p.rtt, pace))
	if !ok {
		return steady{}
	}
	var shaped bool
	if at, ok := bucketEnd(ss, from, p); ok {
		from, shaped = at, true
	}
	var whole steady
	best := steady{noise: math.Inf(1)}
	end := ss[len(ss)-1].at
	for k := range 5 {
		r := readParts(ss, from+(end-from)*time.Duration(k)/8, max(steadyTrips*p.rtt, pace), p)
		if k == 0 {
			whole = r
		}
		full, before := r.Enough && !r.lossy, best.Enough && !best.lossy
		if r.Rate > 0 && (full && !before || full == before && r.noise < best.noise) {
			best = r
		}
	}
	if whole.Shared && !best.lossy {
		best = readParts(ss, max(from, grown(ss, from, p)), max(steadyTrips*p.rtt, pace), p)
	}
	if best.lossy {
		// What is left out here is only what came before the windows were down: of a rate that wanders
		// all of the rest tells, and the part that wanders least tells less.
		if r := readParts(ss, landing(ss, whole), max(steadyTrips*p.rtt, pace), p); r.lossy {
			best = r
		}
	}
	best.Shaped = shaped
	return best
}

// readGain reads again, in shorter parts, what [readSteady] has read of a point of a search. ok says that the lanes get so much more than those of the
// last point of curve, and so evenly, that the next point may follow: a search where the network holds each flow costs
// as many bytes as its last points take time. No losses may decide.
func readGain(ss []sample, last steady, p bulkPath, curve []lanePoint) (r steady, ok bool) {
	if len(curve) == 0 || p.rtt <= 0 || last.Rate <= 0 {
		return steady{}, false
	}
	before := curve[len(curve)-1]
	more := float64(p.lanes)/float64(before.Lanes) - 1
	r = readParts(ss, last.From, steadyTrips*p.rtt/2, p)
	if r.Rate < before.Rate*(1+sureGain*more) || r.noise > steadyError || r.lossy || r.Grows {
		return steady{}, false
	}
	r.Enough, r.Spread = true, max(r.noise, loneSpread)
	return r, true
}

// readParts reads the mean rate from an instant on, and its error from parts of at least size.
func readParts(ss []sample, from, size time.Duration, p bulkPath) steady {
	end := ss[len(ss)-1].at
	span := end - from
	if span <= 0 {
		return steady{}
	}
	c := cursor{ss: ss}
	total := float64(ss[len(ss)-1].bytes) - c.bytes(from)
	if total <= 0 {
		return steady{}
	}
	r := steady{Rate: total / span.Seconds(), Spread: steadyUnknown, From: from, Span: span, noise: steadyUnknown}
	n := min(span/size, maxParts, time.Duration(total/float64(steadyPackets*p.packet)))
	if n < steadyParts {
		return r
	}
	rates := make([]float64, n)
	at, before := from, c.bytes(from)
	for i := range rates {
		next := from + span*time.Duration(i+1)/n
		b := c.bytes(next)
		rates[i] = (b - before) / (next - at).Seconds()
		at, before = next, b
	}
	r.noise = batchError(rates)
	r.path(ss, p)
	r.Spread = min(r.noise, maxSpread)
	if r.lossy = r.Cuts > 0 && !r.queued(p) && (swings(rates, ss, r) || r.sinks(p)); r.lossy {
		r.Spread = max(r.Spread, 0.5/math.Sqrt(float64(r.Cuts)))
		r.Enough = r.Spread <= p.want && !r.falls(p)
	} else {
		// A queue that stands in spite of a loss may be what slow start has left, which drains.
		drains := r.Cuts > 0 && r.sinks(p)
		full := !r.Grows && !drains && total >= p.chance(r.Rate)
		r.Enough = full && r.Spread <= steadyError
		others := p.strangers(r)
		if n >= 3*steadyParts { // five times the noise of so many is more than chance explains: something else takes the rest
			others = min(others, 5*r.noise)
		}
		if r.Shared = others > steadyError && !r.Grows && (full || span >= sharedTime); r.Shared {
			r.Spread = min(max(r.noise, others), maxSpread)
			r.Enough = span >= p.sharedTime() || full && p.lanes > 1 && r.Spread <= sharedMany
		}
		if !full || !r.Shared && !r.Enough { // it agrees with itself, and may still be far from where it goes
			r.Spread = max(r.Spread, steadyUnsure)
		}
	}
	return r
}
