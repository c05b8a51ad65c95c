package probe

import (
	"math"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A lossFilter estimates the share of packets that a path loses by itself. Losses are rare, so it
// counts over all that was sent lately, not over a window of trains: n of them tell the share to 1/√n at best.
//
// When the newest packets contradict those before, the path has changed, and only they count.
type lossFilter struct {
	counted lossCount
	newest  lossCount // not in counted yet
}

// A lossCount is of how many packets how many were lost.
type lossCount struct{ sent, lost float64 }

const (
	lossEnough = netmap.LossEnough // packets, before which a pair says nothing
	lossMemory = 100_000           // packets: half of what was counted is forgotten when so many are in
	// lossBlock is how many packets the newest are when they join those before, unless they have lost lossBlockLost.
	// Of 8 losses that are expected and do not come chance is no explanation any more.
	lossBlock, lossBlockLost = 20_000, 20
	lossFirst                = 2_000 // lossBlock where there are none before
	// lossOdds is from how many standard deviations on two counts contradict each other. They are compared whenever packets are added.
	lossOdds = 4.5
)

// add takes how many packets were sent and how many of those did not arrive.
func (f *lossFilter) add(sent, lost float64) {
	if !(sent > 0 && lost >= 0 && lost <= sent) {
		return
	}
	f.newest = f.newest.plus(lossCount{sent, lost})
	same, block := f.newest.like(f.counted), float64(lossBlock)
	if f.counted.sent == 0 {
		block = lossFirst
	}
	if same && f.newest.sent < block && f.newest.lost < lossBlockLost {
		return
	}
	if !same {
		f.counted = lossCount{}
	}
	f.counted, f.newest = f.counted.plus(f.newest), lossCount{}
	for f.counted.sent > lossMemory {
		f.counted = lossCount{f.counted.sent / 2, f.counted.lost / 2}
	}
}

// count returns what was counted.
func (f *lossFilter) count() lossCount { return f.counted.plus(f.newest) }

// value returns the share of packets lost, 0 to 1, and whether enough were sent to say.
func (f *lossFilter) value() (share float64, ok bool) {
	c := f.count()
	if c.sent < lossEnough {
		return 0, false
	}
	return c.share(), true
}

// share returns the part that was lost, 0 of nothing.
func (c lossCount) share() float64 { return c.lost / max(c.sent, 1) }

func (c lossCount) plus(d lossCount) lossCount { return lossCount{c.sent + d.sent, c.lost + d.lost} }

// like reports whether c and d may be of one path: they have not lost more or less than chance explains where losses fall one by one.
// Twice the root of such a number has a deviation of one (Anscombe, The Transformation of Poisson, Binomial and Negative-Binomial
// Data, Biometrika 35, 1948).
func (c lossCount) like(d lossCount) bool {
	if !(c.sent > 0 && d.sent > 0) {
		return true
	}
	times := c.sent / d.sent
	return 2*math.Abs(math.Sqrt(c.lost+3./8)-math.Sqrt(times*(d.lost+3./8))) <= lossOdds*math.Sqrt(1+times)
}
