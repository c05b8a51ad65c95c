package logp

import (
	"math"
	"slices"
	"time"
)

// The sizes that are measured: one byte (a stream carries no message of none), then from
// LeastSize to MostSize. All but the first are powers of two, or halves of the way between.
const (
	LeastSize = 1 << 10
	MostSize  = 1 << 20
)

const (
	// coarse is the step of the first pass. Most curves are a line with one bend or two,
	// so doubling everywhere would spend twice the round trips to learn the same.
	coarse = 4
	// bend is how far a reading may lie from the line through its neighbours, as a share
	// of itself, before the sizes on both sides of it are looked at.
	bend = 0.10
	// least is the difference that no further size is worth, however little noise is owned
	// to: on a LAN the packets of a message and the moods of two processors are of its order.
	least = 10 * time.Microsecond
	// finest is the least ratio of two neighbours between which a further size is measured.
	finest = 1.2
)

// NextSize returns the size to measure next, given the points so far, sizes rising; ok is
// false when there is none. First come those of 1, 1 KiB, 4 KiB … 1 MiB, no more than most,
// that are not there yet; then,
// while there are fewer than [MaxPoints], sizes beside the reading that lies farthest off
// the line through its neighbours, by more than noise, in the wider gap first. Only g counts
// here: the overheads are found on the way.
func NextSize(points []Point, most int64, noise time.Duration) (size int64, ok bool) {
	if len(points) == 0 {
		return 1, true
	}
	if len(points) >= MaxPoints {
		return 0, false
	}
	for size := int64(LeastSize); size <= min(most, MostSize); size *= coarse {
		if !slices.ContainsFunc(points, func(p Point) bool { return p.Size == size }) {
			return size, true
		}
	}
	worst, noise := bend, max(noise, least)
	for i := 1; i+1 < len(points); i++ {
		a, b, c := points[i-1], points[i], points[i+1]
		off := offLine(a, b, c, noise)
		if off <= worst {
			continue
		}
		left, lok := between(a.Size, b.Size)
		right, rok := between(b.Size, c.Size)
		switch {
		case lok && (!rok || b.Size*b.Size >= a.Size*c.Size): // b/a ≥ c/b
			size, ok, worst = left, true, off
		case rok:
			size, ok, worst = right, true, off
		}
	}
	return size, ok
}

// offLine returns how far b's gap lies from the line through a and c, as a share of
// itself; 0 where that is less than noise.
func offLine(a, b, c Point, noise time.Duration) float64 {
	if b.Gap <= 0 {
		return 0
	}
	share := float64(b.Size-a.Size) / float64(c.Size-a.Size)
	want := float64(a.Gap) + share*float64(c.Gap-a.Gap)
	off := math.Abs(want - float64(b.Gap))
	if off < float64(noise) {
		return 0
	}
	return off / float64(b.Gap)
}

// between returns a size inside lo…hi that is worth measuring: twice lo where the two are
// four times apart or more, else the middle. Below LeastSize nothing is: messages of less
// than a packet cost what a packet costs.
func between(lo, hi int64) (int64, bool) {
	switch {
	case lo < LeastSize || float64(hi) < finest*float64(lo):
		return 0, false
	case hi >= 4*lo:
		return 2 * lo, true
	}
	return (lo + hi) / 2, true
}
