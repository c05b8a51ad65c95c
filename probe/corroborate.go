package probe

import (
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// What one flow gets of a link that this host shares with others of its site it takes from them, too. It
// must not take it from one alone, who may be wrong or lie: all of the site would be wrong with it.
const (
	// corroborators is how many hosts must have measured.
	corroborators = 2
	// corroborated is up to which factor they may lie apart.
	corroborated = 2.0
	// plausible is what a flow may get of its link on one host's word: a lie of that size costs no
	// more than a factor, and a bulk probe more of every link would cost all that are honest.
	plausible = 0.5
)

// A claim is an estimate of a pair between two sites, and of which sender.
type claim struct {
	from string
	e    netmap.Estimate
	to   string
}

// corroborate returns the estimates of claims, without the rate of the link and the capacity, which make
// an estimate tell of flows, where these are not to be believed. own is which part of the link a flow of self got
// that none of claims tells of, or which part the losses that self has met should leave of it, 0 if none is known. What self has measured is believed. Of others, a single
// one's are not, unless it says that a flow gets most of the link; of two that disagree those that say that a flow gets more of the link are, as it
// is taken to get all of it where nothing is known; of more, those that agree with the median.
func corroborate(self string, own float64, claims []claim) []netmap.Estimate {
	parts := partsOf(claims)
	if own > 0 {
		parts[self] = append(parts[self], own)
	}
	typical := common(parts)
	out := make([]netmap.Estimate, 0, len(claims))
	for _, c := range claims {
		part, ok := c.part()
		alone := typical == 0 && part < plausible
		apart := typical > 0 && (part > corroborated*typical || corroborated*part < typical)
		if c.from != self && (!ok || alone || apart) {
			c.e.Known &^= netmap.FieldLine | netmap.FieldCapacity | netmap.FieldLanes
			c.e.Line = 0
		}
		out = append(out, c.e)
	}
	return out
}

// contested reports whether just two hosts have measured what a flow gets of the link, self not among them, and one says many times what
// the other does: which of them is right only a third can tell.
func contested(self string, claims []claim) bool {
	parts := partsOf(claims)
	if len(parts) != corroborators || parts[self] != nil {
		return false
	}
	var least, most float64
	for _, v := range parts {
		m := medianOf(v)
		if least == 0 || m < least {
			least = m
		}
		most = max(most, m)
	}
	return disputedLow*least < most
}

// commonRate returns what senders say that a flow gets: 0 if they are too few.
func commonRate(claims []claim) float64 {
	rates := make(map[string][]float64)
	for _, c := range claims {
		if c.e.Has(netmap.FieldBandwidth) {
			rates[c.from] = append(rates[c.from], float64(c.e.Bandwidth))
		}
	}
	return common(rates)
}

// common returns the median of the senders' medians, of two the higher one, and 0 if they are too few.
func common(values map[string][]float64) float64 {
	if len(values) < corroborators {
		return 0
	}
	var each []float64
	for _, v := range values {
		each = append(each, medianOf(v))
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// partsOf returns which parts of the link senders have measured that a flow gets.
func partsOf(claims []claim) map[string][]float64 {
	parts := make(map[string][]float64)
	for _, c := range claims {
		if part, ok := c.part(); ok {
			parts[c.from] = append(parts[c.from], part)
		}
	}
	return parts
}

// part returns what a flow gets of the link, if c stands on a measurement of one.
func (c claim) part() (part float64, ok bool) {
	if !c.e.Has(netmap.FieldLine|netmap.FieldBandwidth) || !(c.e.Line > 0) {
		return 0, false
	}
	return float64(c.e.Bandwidth / c.e.Line), true
}
