package probe

import (
	"math"
	"sort"
	"time"
)

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

// alone is the share of what trains read of a link that one flow gets at least where nobody else is on it. In
// its first second a flow may get nearly as much of a slow link that strangers share: its slow start fills the queue with its own packets.
const alone = 0.975

// strangers returns the relative standard error of r.Rate that others' packets make where they take what r leaves of the link:
// of n packets that come at random √n come more or less, or some more as they come in bursts. 0 where they take too little
// to be told from packets that the reading has cut through.
func (p bulkPath) strangers(r steady) float64 {
	if others := p.line - r.Rate; r.Rate < alone*p.line {
		return sharedBursts * math.Sqrt(others*float64(p.packet)/r.Span.Seconds()) / r.Rate
	}
	return 0
}

// sharedTime is for how long the link is watched where strangers share it.
func (p bulkPath) sharedTime() time.Duration {
	if p.line <= 0 {
		return sharedTime
	}
	many := time.Duration(sharedPackets * float64(p.packet) / p.line * float64(time.Second))
	return min(max(many, sharedTime), 2*sharedTime)
}

// path notes what the sender saw of the path during the part that r was read from.
func (r *steady) path(ss []sample, p bulkPath) {
	late := r.From + r.Span*3/4
	var sum, n time.Duration
	var lost, cuts int64
	least := time.Duration(math.MaxInt64) // of the last quarter: a queue that slow start has left drains
	for i, s := range ss {
		if s.at < r.From || i == 0 {
			continue
		}
		trips := max(int64((s.at-ss[i-1].at+p.rtt/2)/p.rtt), 1)
		lost += max(s.lost-ss[i-1].lost, 0)
		cuts += max(min(s.lost-ss[i-1].lost, int64(p.lanes)*trips), 0)
		if s.rtt > 0 {
			sum, n = sum+s.rtt-p.rtt, n+1
			if s.at >= late {
				least = min(least, s.rtt-p.rtt)
			}
		}
	}
	r.Lost, r.Cuts = int(lost), int(cuts)
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
