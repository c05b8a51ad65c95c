package probe

import "math"

const (
	// maxLanes bounds a search for the knee; an exchange takes no more lanes either.
	maxLanes = 64
	// kneeGain is by how much twice the lanes must get more for the search to go on.
	kneeGain = 0.10
	// kneeDoubt is the relative error of a gain from which on it says nothing.
	kneeDoubt = 0.15
	// kneeStuck is what four times the lanes get at least, as a part of what the fewer got, where it is not the link that holds them:
	// flows that losses or the network hold get near to four times as much.
	kneeStuck = 1.3
	// kneeShare of the capacity is what the lanes of the knee get.
	kneeShare = 0.95
	// kneeLine is how far from what trains read of a link what fills it may lie.
	kneeLine = 0.15
	// kneeCrowd is how many times the lanes that would fill a link if losses alone held them it takes at most, about:
	// now and then they get into each other's way.
	kneeCrowd = 1.5
)

// A lanePoint is a point of a capacity curve: what a number of lanes got together.
type lanePoint struct {
	Lanes  int
	Rate   float64 // bytes a second
	Spread float64
	Enough bool // see [steady]
	Full   bool // a queue stood before the narrowest link
}

// A kneeSearch says how a search for the knee goes.
type kneeSearch struct {
	most  int     // lanes
	begin int     // lanes of the first point that is measured; 0 means 1
	line  float64 // bytes a second of the link, as trains read it; 0: unknown
}

// filling returns how many lanes fill a link for sure of which one flow gets a part: the power of two that is a third more than
// it takes if the part is right.
func filling(part float64) int {
	n := 1
	for part > 0 && n < maxLanes && float64(n)*part < 4./3 {
		n *= 2
	}
	return n
}

// next returns how many lanes to measure next, twice as many as last time, or 0 if the search has met
// the knee or most would be exceeded.
func (s kneeSearch) next(curve []lanePoint) int {
	n := len(curve)
	if n == 0 || curve[n-1].Lanes < s.begin {
		return min(max(s.begin, 1), s.most, maxLanes)
	}
	next := 2 * curve[n-1].Lanes
	if next > min(s.most, maxLanes) || s.met(curve) {
		return 0
	}
	return next
}

// met reports whether the last point lies at the knee or above: the last doubling gained too little, for
// sure, or several lanes have filled together what trains read of the link. Where the link is
// full the rates are sure; where they are not, losses decide, and more lanes get more. That one lane gets
// what trains read proves nothing: where the network holds each flow it holds trains.
func (s kneeSearch) met(curve []lanePoint) bool {
	n := len(curve)
	if n == 0 {
		return false
	}
	b := curve[n-1]
	if b.Full && b.Lanes > 1 && s.line > 0 && apart(b.Rate, s.line) <= kneeLine {
		return true
	}
	if n == 1 || b.Lanes < s.begin {
		return false
	}
	a := curve[n-2]
	return b.Rate < (1+kneeGain)*a.Rate && math.Hypot(a.Spread, b.Spread) <= kneeDoubt || s.stuck(curve)
}

// stuck reports whether lanes get far less than so many would if each got what it gets with a quarter of them, as two points say, or one that is
// not too unsure. On a slow link that strangers share lanes get into each other's way, and no point is ever sure.
func (s kneeSearch) stuck(curve []lanePoint) bool {
	n := len(curve)
	b := curve[n-1]
	for i, a := range curve[:n-1] {
		if 4*a.Lanes <= b.Lanes && b.Rate < kneeStuck*a.Rate && (n-i > 2 || b.Spread <= 2*kneeDoubt) {
			return true
		}
	}
	return false
}

// flat reports whether the last point, which may have been cut short, is no higher than the one before, which is sure. Lanes that
// were cut short while they got under way say nothing.
func (s kneeSearch) flat(curve []lanePoint) bool {
	n := len(curve)
	return n > 1 && curve[n-1].Lanes > s.begin && curve[n-1].Rate < (1+kneeGain)*curve[n-2].Rate && curve[n-2].Spread <= kneeDoubt && curve[n-1].Spread <= 2*kneeDoubt
}

// gained returns the points that are sure, where several lanes are among them that got more than fewer did, and nil otherwise. What they got
// the link carries, though a search that has used up what it may take does not know whether more would get more.
func gained(curve []lanePoint) (sure []lanePoint) {
	for _, p := range curve {
		if p.Enough {
			sure = append(sure, p)
		}
	}
	if n := len(sure); n < 2 || sure[n-1].Rate < (1+kneeGain)*sure[0].Rate {
		return nil
	}
	return sure
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
		if k1 > 2*k0 { // the line is no bound to speak of, and of flows that losses hold alone is nearly right
			line = min(line, kneeCrowd*alone)
		}
		return capacity, int(math.Ceil((alone + line) / 2))
	}
	return capacity, curve[len(curve)-1].Lanes // not reached: the maximum is among them
}
