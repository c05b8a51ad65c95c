package probe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// The lengths of a train, in packets.
const (
	// firstTrain costs 20 kB: 0.15 s of a 1.16 Mbit/s link, 1.7 s of a 0.1 Mbit/s link.
	firstTrain = 16
	// maxTrain is where doubling ends: 2.7 ms of a 1 Gbit/s link.
	maxTrain = 256
	// minSpan is how long the part of a train that is read should take at the receiver.
	// Under it, 100 µs of receive jitter and a late reader are more than a few per cent.
	minSpan = 8 * time.Millisecond

	minArrivals = 6 // fewer say little
	// fewArrivals is the same for second opinions: what a full queue lets in of a train stands in
	// it one behind the other, and other witnesses have to say the same.
	fewArrivals = 3
	maxSpread   = 1e3 // more says no more, and the map takes no more
)

// errTooFew means that too little of a train arrived to read a rate from.
var errTooFew = errors.New("too few packets of the train arrived")

// An arrival is one packet of a train as the receiver saw it.
type arrival struct {
	Seq int           // 0 … count−1
	At  time.Duration // since any fixed instant, on the receiver's monotonic clock
}

// A reading is what one train says of one direction.
type reading struct {
	Rate     float64       // packets a second at the narrowest link
	Spread   float64       // interquartile range of the slopes over their median
	Received int           // distinct packets that arrived
	Span     time.Duration // how long the part took that Rate was read from
	Shaped   bool          // the rate fell inside the train (token bucket); Rate is the later one
	Points   int           // instants that Rate was read from; packets read at one instant are one
}

// readTrain estimates the rate of the narrowest link from when the packets of one train,
// sent back to back, arrived. arrivals may be in any order and hold duplicates; the
// slice is not modified. It is robust to
//
//   - packets that the reader found together (a batched read, a late goroutine):
//     each clump counts as one instant, that of its last packet;
//   - loss: packets dropped before the narrow link took none of its time and are not
//     counted, packets lost behind it did and are (see [progress]);
//   - receive jitter and a pause of either host: the median of many slopes over a
//     quarter of the train, in the manner of Theil and Sen;
//   - a token bucket that lets a burst pass: where two lines fit far better than one
//     and the later is slower, only the later part is read.
//
// It returns errTooFew, wrapped with the numbers, if fewer than least packets arrived, 3 or more.
func readTrain(arrivals []arrival, count, least int) (reading, error) {
	as := inOrder(arrivals)
	n := len(as)
	if n < max(least, fewArrivals) {
		return reading{}, fmt.Errorf("%d of %d: %w", n, count, errTooFew)
	}
	span := as[n-1].At - as[0].At
	pts := collapse(as, progress(as))
	if len(pts) < 3 {
		// Everything came within two instants: the train was too short to time. What
		// can be said is how fast it was at least, and that is not much.
		return reading{
			Rate: float64(n-1) / max(span, time.Microsecond).Seconds(), Spread: 1,
			Received: n, Span: span, Points: len(pts),
		}, nil
	}
	r := reading{Received: n}
	if k := slowdown(pts); k > 0 {
		pts, r.Shaped = pts[k:], true
	}
	perPacket, spread := medianSlope(pts)
	r.Rate, r.Spread, r.Points = 1/perPacket, spread, len(pts)
	r.Span = time.Duration((pts[len(pts)-1].t - pts[0].t) * float64(time.Second))
	return r, nil
}

// nextLength returns the length of the train that should follow one of count packets
// that read r, or 0 if r is as good as it will get.
func nextLength(count int, r reading) int {
	long := r.Span >= minSpan && r.Points >= minArrivals
	if long || count >= maxTrain {
		return 0
	}
	want := 2 * count
	if r.Span > 0 {
		// A quarter more than needed: falling short costs another round trip.
		if need := 1.25 * float64(count) * float64(minSpan) / float64(r.Span); need < maxTrain {
			want = max(want, int(math.Ceil(need)))
		} else {
			want = maxTrain
		}
	} else {
		want = maxTrain
	}
	return min(want, maxTrain)
}

// enoughLength returns how many packets would have been enough for a train of count packets that was read as r, at
// most count; 0 if it was too short. A quarter more than needed, as in nextLength.
func enoughLength(count int, r reading) int {
	if r.Span < minSpan || r.Points < minArrivals {
		return 0
	}
	part := max(float64(minSpan)/float64(r.Span), float64(minArrivals)/float64(r.Points))
	return min(int(math.Ceil(1.25*part*float64(count))), count)
}

// inOrder returns the arrivals by time, then number, each number once (its first arrival).
func inOrder(arrivals []arrival) []arrival {
	as := slices.Clone(arrivals)
	slices.SortFunc(as, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq))
	})
	seen := make(map[int]bool, len(as))
	return slices.DeleteFunc(as, func(a arrival) bool {
		dup := seen[a.Seq]
		seen[a.Seq] = true
		return dup
	})
}

// progress returns, for each arrival in order, how many packets the narrow link has
// served by then. Where packets are missing, the time that passed in their place says
// whether the link had served them: if a gap in the numbers lasts as long as the
// missing packets would have, they were lost behind the link (receive queue, random
// loss) and count; if it lasts as long as one packet, its queue had refused them.
func progress(as []arrival) []float64 {
	var plain, gap, lost float64 // steps without, with a gap; packets missing in them
	var tPlain, tGap time.Duration
	for i := 1; i < len(as); i++ {
		dt, d := as[i].At-as[i-1].At, as[i].Seq-as[i-1].Seq
		if d > 1 {
			gap, lost, tGap = gap+1, lost+float64(d-1), tGap+dt
		} else {
			plain, tPlain = plain+1, tPlain+dt
		}
	}
	served := false
	if lost > 0 && plain >= 4 {
		unit := tPlain.Seconds() / plain
		served = tGap.Seconds()-gap*unit > lost*unit/2
	}
	x := make([]float64, len(as))
	top := as[0].Seq
	for i, a := range as {
		top = max(top, a.Seq)
		if served {
			x[i] = float64(top - as[0].Seq)
		} else {
			x[i] = float64(i)
		}
	}
	return x
}

// A point says that x packets had been served at t seconds.
type point struct{ x, t float64 }

// collapse makes one point of packets that arrived closer together than a quarter of
// the mean distance: the reader found them waiting, so only the last tells the time.
func collapse(as []arrival, x []float64) []point {
	n := len(as)
	start := as[0].At
	closer := (as[n-1].At - start) / time.Duration(4*n)
	var pts []point
	for i := range as {
		if i+1 < n && as[i+1].At-as[i].At <= closer {
			continue
		}
		p := point{x[i], (as[i].At - start).Seconds()}
		if k := len(pts); k > 0 && p.x <= pts[k-1].x {
			continue // a straggler that was overtaken adds nothing served
		}
		pts = append(pts, p)
	}
	return pts
}

// slowdown returns the index of the first point of the later part if the train falls
// into a faster and a later, slower part, and 0 if it does not.
func slowdown(pts []point) int {
	const (
		least   = 4    // points on each side
		lasting = 2e-3 // seconds of the later part: less is a late reader, not a bucket
		slower  = 1.25 // by how much the later part must be slower
		explain = 0.25 // share of the squared error that two lines may leave
	)
	n := len(pts)
	if n < 2*least {
		return 0
	}
	head, tail := make([]line, n+1), make([]line, n+1)
	for i, p := range pts {
		head[i+1] = head[i].add(p)
	}
	for i := n - 1; i >= 0; i-- {
		tail[i] = tail[i+1].add(pts[i])
	}
	best, at := head[n].residual()*explain, 0
	for k := least; k <= n-least; k++ {
		if pts[n-1].t-pts[k].t < lasting || head[k].slope()*slower > tail[k].slope() {
			continue
		}
		if r := head[k].residual() + tail[k].residual(); r < best {
			best, at = r, k
		}
	}
	return at
}

// A line accumulates the least-squares fit of t over x.
type line struct{ n, x, t, xx, xt, tt float64 }

func (l line) add(p point) line {
	return line{l.n + 1, l.x + p.x, l.t + p.t, l.xx + p.x*p.x, l.xt + p.x*p.t, l.tt + p.t*p.t}
}

func (l line) slope() float64 {
	return (l.n*l.xt - l.x*l.t) / (l.n*l.xx - l.x*l.x)
}

// residual returns the sum of squared errors that the fit leaves.
func (l line) residual() float64 {
	vx, vt, c := l.xx-l.x*l.x/l.n, l.tt-l.t*l.t/l.n, l.xt-l.x*l.t/l.n
	return max(vt-c*c/vx, 0)
}

// medianSlope returns the seconds a packet takes: the median of the slopes between
// points a quarter of the train apart, and the slopes' relative interquartile range.
// A quarter, because one pause then touches a third of the slopes; half would let a
// pause in the middle touch them all.
func medianSlope(pts []point) (perPacket, spread float64) {
	n := len(pts)
	lag := max(n/4, 1)
	slopes := make([]float64, 0, n-lag)
	for i := 0; i+lag < n; i++ {
		a, b := pts[i], pts[i+lag]
		slopes = append(slopes, (b.t-a.t)/(b.x-a.x))
	}
	slices.Sort(slopes)
	m := quantile(slopes, 0.5)
	return m, min((quantile(slopes, 0.75)-quantile(slopes, 0.25))/m, maxSpread)
}

// quantile interpolates in sorted, non-empty v.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
