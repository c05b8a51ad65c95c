package probe

import (
	"sort"
	"time"
)

// grown returns when the first bytes arrived that were sent after the windows had ended to grow faster than by a packet a round
// trip, from an instant on; the end of ss if they have not.
func grown(ss []sample, from time.Duration, p bulkPath) time.Duration {
	const much = 1.1
	ended := from
	for i, j := 0, 0; i < len(ss); i++ {
		for j < i && ss[j].at < ss[i].at-max(ss[i].rtt, p.rtt) {
			j++
		}
		before := float64(ss[j].window)
		if before > 0 && float64(ss[i].window) > much*before+float64(2*int64(p.lanes)*p.packet) {
			ended = max(ended, ss[i].at)
		}
	}
	for _, s := range ss {
		if s.at-s.rtt >= ended {
			return s.at
		}
	}
	return ss[len(ss)-1].at
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
