package probe

import "math"

const (
	// maxLanes bounds a search for the knee; an exchange takes no more lanes either.
	maxLanes = 64
	// kneeGain is by how much twice the lanes must get more for the search to go on.
	kneeGain = 0.10
	// kneeDoubt is the relative error of a gain from which on it says nothing.
	kneeDoubt = 0.15
	// kneeShare of the capacity is what the lanes of the knee get.
	kneeShare = 0.95
)

// A lanePoint is a point of a capacity curve: what a number of lanes got together.
type lanePoint struct {
	Lanes  int
	Rate   float64 // bytes a second
	Spread float64
	Enough bool // see [steady]
}

// moreLanes returns how many lanes to measure next, twice as many as last time, or 0 if
// the last doubling gained too little, for sure, or most would be exceeded. Where the link is
// full the rates are sure; where they are not, losses decide, and more lanes get more.
func moreLanes(curve []lanePoint, most int) int {
	n := len(curve)
	if n == 0 {
		return 1
	}
	next := 2 * curve[n-1].Lanes
	if next > min(most, maxLanes) {
		return 0
	}
	if n > 1 {
		a, b := curve[n-2], curve[n-1]
		if b.Rate < (1+kneeGain)*a.Rate && math.Hypot(a.Spread, b.Spread) <= kneeDoubt {
			return 0
		}
	}
	return next
}

// knee returns the capacity, the most that any number of lanes got, and the least number
// that gets kneeShare of it. curve is in order of rising lanes. Between two points it
// lies between what flows that do not disturb each other would need, each getting what it
// got at the lower point, and the straight line: rates are concave in the lanes. The middle is taken.
// Of an empty curve it returns 0, 0.
func knee(curve []lanePoint) (capacity float64, lanes int) {
	for _, p := range curve {
		capacity = max(capacity, p.Rate)
	}
	if capacity <= 0 {
		return 0, 0
	}
	want := kneeShare * capacity
	for i, p := range curve {
		if p.Rate < want {
			continue
		}
		if i == 0 {
			return capacity, p.Lanes
		}
		low := curve[i-1]
		k0, k1 := float64(low.Lanes), float64(p.Lanes)
		line := k0 + (k1-k0)*(want-low.Rate)/(p.Rate-low.Rate)
		alone := line
		if low.Rate > 0 {
			alone = min(k0*want/low.Rate, line)
		}
		return capacity, int(math.Ceil((alone + line) / 2))
	}
	return capacity, curve[len(curve)-1].Lanes // not reached: the maximum is among them
}
