package probe

import (
	"math"
	"slices"
)

// The rate filter's numbers. TestRateFilterChosen compares them with others.
const (
	// rateWindow is how many readings the filter looks back.
	rateWindow = 7
	// sameRate is how far two readings of a link that has not changed may lie apart, relative
	// to the larger one; a single packet of somebody else in a train of 16 is 6 %.
	sameRate = 0.15
	// otherRate is how far from the value a reading must lie to speak of another link.
	otherRate = 0.20
	// settled is within how much of each other the first two readings must lie to be believed.
	settled = 0.08
)

// A rateFilter turns the readings of one quantity, a rate, into one value and its spread. It
// knows neither where the readings come from nor when: it is used for what trains say of a
// link, and for what bulk probes say of a flow.
//
// The value is the median of the last seven. Two readings in a row that agree with each other
// and lie apart from the value are a change of the link and not noise: what came before is
// dropped. So an outlier costs nothing, and a change is believed with the second reading that
// shows it, which the filter asks for ([rateFilter.doubtful]).
//
// What disturbs a train (somebody else's packets between its own) mostly lowers it, so of an
// even number of readings the upper of the two in the middle counts.
type rateFilter struct {
	rates   []float64 // newest last
	spreads []float64 // of the readings themselves
}

// add takes a new reading, above 0, and its own relative spread. It reports whether the
// readings before it were dropped, since the link has changed.
func (f *rateFilter) add(rate, spread float64) (changed bool) {
	value, _ := f.value()
	f.rates, f.spreads = append(f.rates, rate), append(f.spreads, spread)
	n := len(f.rates)
	if n >= 3 {
		last := f.rates[n-2]
		changed = apart(rate, last) <= sameRate && apart(rate, value) > otherRate && apart(last, value) > otherRate
	}
	keep := rateWindow
	if changed {
		keep = 2
	}
	if n > keep {
		f.rates = slices.Delete(f.rates, 0, n-keep)
		f.spreads = slices.Delete(f.spreads, 0, n-keep)
	}
	return changed
}

// value returns the rate that is believed, and how uncertain it is: the larger of how far
// the middle half of the readings lie apart and how wide the typical one was in itself, both
// relative. One reading alone cannot be compared, and is not trusted below loneSpread. Without
// readings both are 0.
func (f *rateFilter) value() (rate, spread float64) {
	n := len(f.rates)
	if n == 0 {
		return 0, 0
	}
	v := slices.Sorted(slices.Values(f.rates))
	rate = v[n/2]
	own := slices.Sorted(slices.Values(f.spreads))[n/2]
	switch n {
	case 1:
		spread = max(own, loneSpread)
	case 2:
		spread = max(own, apart(v[0], v[1]))
	default:
		spread = max(own, (quantile(v, 0.75)-quantile(v, 0.25))/rate)
	}
	return rate, min(spread, maxSpread)
}

// loneSpread is what a single reading is uncertain by at least: by as much do trains of the
// same link differ on a busy machine.
const loneSpread = 0.10

// bounds returns the least and the highest of the readings that count, 0 without any.
func (f *rateFilter) bounds() (least, most float64) {
	if len(f.rates) == 0 {
		return 0, 0
	}
	return slices.Min(f.rates), slices.Max(f.rates)
}

// readings is how many readings the value stands on.
func (f *rateFilter) readings() int { return len(f.rates) }

// newest returns the last reading, 0 without any.
func (f *rateFilter) newest() float64 {
	if len(f.rates) == 0 {
		return 0
	}
	return f.rates[len(f.rates)-1]
}

// doubtful reports whether another reading is wanted at once: the newest one lies apart from
// what is believed, or the first two disagree. others is what like pairs have, 0 if unknown:
// a first reading that lies apart from them is as doubtful.
func (f *rateFilter) doubtful(others float64) bool {
	n := len(f.rates)
	if n == 0 {
		return false
	}
	value, _ := f.value()
	switch {
	case n == 1:
		return others > 0 && apart(value, others) > settled
	case n == 2:
		return apart(f.rates[0], f.rates[1]) > settled
	}
	return apart(f.newest(), value) > otherRate
}

// apart is the relative distance of two positive numbers, of the larger one.
func apart(a, b float64) float64 { return math.Abs(a-b) / max(a, b) }
