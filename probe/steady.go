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
}

// A steady is what a transfer says of its steady state.
type steady struct {
	Rate   float64       // bytes a second; 0 where nothing can be said
	Spread float64       // relative standard error of Rate
	Enough bool          // seen long enough, and it does not grow any more
	From   time.Duration // where the part begins that was read
	Span   time.Duration // how long it is
	Shaped bool          // the rate fell for good (a token bucket ran empty); Rate is the later one
	Cuts   int           // how often losses made the sender slow down, at most once a round trip and lane
	Queue  time.Duration // time that packets waited before the narrowest link; 0 if it will not last
	Grows  bool          // the windows grow, and nothing of the path is in their way yet

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

// landing returns when the windows first came down to about where they are in the later half
// of r: slow start may have ended far above, and then it takes many losses to come down.
func landing(ss []sample, r steady) time.Duration {
	const about = 1.2
	var sum, n float64
	for _, s := range ss {
		if s.at >= r.From+r.Span/2 {
			sum, n = sum+float64(s.window), n+1
		}
	}
	for _, s := range ss {
		if s.at >= r.From && float64(s.window)*n <= about*sum {
			return s.at
		}
	}
	return r.From
}

// slowStartEnd returns when the rate over h is no longer much above that over the h before.
func slowStartEnd(ss []sample, h time.Duration) (time.Duration, bool) {
	const growing = 1.25
	first, last := ss[0].at, ss[len(ss)-1].at
	a, b, c := cursor{ss: ss}, cursor{ss: ss}, cursor{ss: ss}
	for t := first + 2*h; t <= last; t += h / 4 {
		before := b.bytes(t-h) - a.bytes(t-2*h)
		if before > 0 && c.bytes(t)-b.bytes(t-h) < growing*before {
			return t - h/2, true // the queue that has built up is the path's own
		}
		if h < 4 {
			break
		}
	}
	return 0, false
}

// bucketEnd returns when a token bucket ran empty: the later of two lines that fit far
// better than one, if it is the slower one.
func bucketEnd(ss []sample, from time.Duration, p bulkPath) (time.Duration, bool) {
	const (
		slower  = 1.25 // by how much the later part must be slower
		explain = 0.02 // share of the squared error that two lines may leave; saw teeth leave more
	)
	least := 2 * steadyTrips * p.rtt // of each side
	i := sort.Search(len(ss), func(i int) bool { return ss[i].at >= from })
	ss = ss[i:]
	n := len(ss)
	if n < 8 || ss[n-1].at-ss[0].at < 2*least {
		return 0, false
	}
	at := func(i int) point {
		return point{float64(ss[i].bytes-ss[0].bytes) / float64(p.packet), (ss[i].at - ss[0].at).Seconds()}
	}
	var whole line
	head := make([]line, n+1)
	for i := range ss {
		head[i+1] = head[i].add(at(i))
	}
	whole = head[n]
	var tail line
	best, found := whole.residual()*explain, 0
	for i := n - 1; i >= 4; i-- {
		tail = tail.add(at(i))
		if n-i < 4 || ss[n-1].at-ss[i].at < least || ss[i].at-ss[0].at < least {
			continue
		}
		if head[i].slope()*slower > tail.slope() {
			continue
		}
		if r := head[i].residual() + tail.residual(); r < best {
			best, found = r, i
		}
	}
	if found == 0 {
		return 0, false
	}
	return ss[found].at + p.rtt, true
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
		r.Enough = r.Spread <= steadyError && !r.Grows && !drains && total >= p.chance(r.Rate)
		if !r.Enough { // it agrees with itself, and may still be far from where it goes
			r.Spread = max(r.Spread, steadyUnsure)
		}
	}
	return r
}

// chance returns how many bytes are to be seen of a flow whose link seems full. A loss of 1 in
// n packets, on an empty path, holds a flow to a window of 2·√n packets (at a fall of 30 % a
// loss). To tell that from a full link one has to see about 3n packets, so that there was a loss in them:
// 3/4 of the square of the bandwidth-delay product. On a fat path that is more than anybody
// would pay, so losses below 1 in 2,000 may be overlooked; and no more than 32 round trips are
// waited for, because where that would be too few, losses would not make the flow much slower.
func (p bulkPath) chance(rate float64) float64 {
	const most, trips = 6000, 2 * steadyParts * steadyTrips
	window := rate * p.rtt.Seconds() / float64(p.packet) / float64(max(p.lanes, 1))
	want := min(window*window*3/4, most, trips*window) * float64(p.packet)
	if p.lanes <= 1 { // of strangers a few round trips of a short path say nothing
		want = max(want, min(rate*steadySecond, steadyBytes))
	}
	return want
}

// path notes what the sender saw of the path during the part that r was read from.
func (r *steady) path(ss []sample, p bulkPath) {
	late := r.From + r.Span*3/4
	var sum, n time.Duration
	var cuts int64
	least := time.Duration(math.MaxInt64) // of the last quarter: a queue that slow start has left drains
	for i, s := range ss {
		if s.at < r.From || i == 0 {
			continue
		}
		trips := max(int64((s.at-ss[i-1].at+p.rtt/2)/p.rtt), 1)
		cuts += max(min(s.lost-ss[i-1].lost, int64(p.lanes)*trips), 0)
		if s.rtt > 0 {
			sum, n = sum+s.rtt-p.rtt, n+1
			if s.at >= late {
				least = min(least, s.rtt-p.rtt)
			}
		}
	}
	r.Cuts = int(cuts)
	// Losses that come on at this pace must not empty the queue before as much time has
	// passed again: each takes 30 % of its lane's window, each round trip gives back a packet.
	window := float64(ss[len(ss)-1].window) * math.Pow(0.7, float64(cuts)/float64(p.lanes))
	window += float64(r.Span) / float64(p.rtt) * float64(int64(p.lanes)*p.packet)
	if n > 0 && window >= r.Rate*p.rtt.Seconds() {
		r.Queue = max(min(sum/n, least), 0)
	}
	i := sort.Search(len(ss), func(i int) bool { return ss[i].at >= r.From })
	grown := ss[len(ss)-1].window - ss[i].window
	r.Grows = r.Cuts == 0 && !r.queued(p) && grown > steadyGrowth*int64(p.lanes)*p.packet
}

// swings reports whether the rates of the parts of r go with the lanes' windows. Where the
// windows swing and the rates do not, the link is full, and its queue too short to be seen.
func swings(rates []float64, ss []sample, r steady) bool {
	if len(rates) < 2*steadyParts {
		return true // of few parts nobody can tell
	}
	windows, weight := make([]float64, len(rates)), make([]float64, len(rates))
	for i, s := range ss {
		if s.at <= r.From || i == 0 {
			continue
		}
		k := min(int(float64(s.at-r.From)/float64(r.Span)*float64(len(rates))), len(rates)-1)
		windows[k] += float64(s.window)
		weight[k]++
	}
	for i := range windows {
		if weight[i] == 0 {
			return true
		}
		windows[i] /= weight[i]
	}
	return deviation(rates) > steadySwing*deviation(windows)
}

// sinks reports whether as many losses as r saw would, in the long run, hold the lanes to
// windows that do not fill the link, be it full now: slow start may have left a heap of packets
// that takes a while to drain. In the long run a lane gains between two losses what it loses at one.
func (r steady) sinks(p bulkPath) bool { return r.bears(p) < 0.8*r.Rate*p.rtt.Seconds() }

// falls reports whether the windows are still far above where the losses that r saw will hold them.
func (r steady) falls(p bulkPath) bool { return r.bears(p) < 0.5*r.Rate*p.rtt.Seconds() }

// bears returns the window, in bytes and of all lanes, that as many losses as r saw bear in the long run.
func (r steady) bears(p bulkPath) float64 {
	trips := float64(r.Span) / float64(p.rtt)
	return float64(p.packet) * float64(p.lanes*p.lanes) * trips / (0.3 * float64(r.Cuts))
}

// batchError returns the relative standard error of the mean of rates, as their batches say
// for which it is the largest.
func batchError(rates []float64) (worst float64) {
	for len(rates) >= steadyParts {
		worst = max(worst, deviation(rates)/math.Sqrt(float64(len(rates))))
		half := make([]float64, 0, len(rates)/2)
		for i := len(rates) % 2; i < len(rates); i += 2 { // of an odd number the oldest is left out
			half = append(half, (rates[i]+rates[i+1])/2)
		}
		rates = half
	}
	return worst
}

// deviation returns the standard deviation of two or more numbers relative to their mean; 0 if
// that is not positive.
func deviation(v []float64) float64 {
	var mean, sum float64
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	if !(mean > 0) {
		return 0
	}
	return math.Sqrt(sum/float64(len(v)-1)) / mean
}

// A cursor interpolates between samples at instants that never fall.
type cursor struct {
	ss []sample
	i  int
}

func (c *cursor) bytes(t time.Duration) float64 {
	for c.i+1 < len(c.ss) && c.ss[c.i+1].at <= t {
		c.i++
	}
	a := c.ss[c.i]
	if t <= a.at || c.i+1 == len(c.ss) {
		return float64(a.bytes)
	}
	b := c.ss[c.i+1]
	return float64(a.bytes) + float64(b.bytes-a.bytes)*float64(t-a.at)/float64(b.at-a.at)
}
