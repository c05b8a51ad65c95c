package probe

import (
	"math"
	"slices"
)

// fills is the share of a link from which on one flow is said to fill it: what the flow gets
// then follows the link. Headers, acknowledgements of the other direction and the saw tooth of
// a congestion window cost some per cent of a link.
const fills = 0.90

// A flowBelief is what is believed of one ordered pair: the rate of its narrowest link, which
// trains read, and what one flow gets of it, which bulk probes and exchanges read. The two
// differ where other traffic takes a share, where packets are lost, or where the network holds
// each flow (then several lanes get more, see knee). Trains are cheap and bulk probes are not,
// so a train corrects both: see [flowBelief.flow].
type flowBelief struct {
	line rateFilter // user bytes a second of the narrowest link
	bulk rateFilter // user bytes a second of one flow
	part rateFilter // bulk over line, when each was read

	capacity float64 // of several lanes, as a part of line when it was read; 0 unknown
	lanes    int     // that reach it
}

// A siteFlow is what the bulk probes of like pairs have found, those between the same two
// sites: the link is the same, and so is mostly what holds a flow on it.
type siteFlow struct {
	part float64 // median of what one flow got of the link, 0 if nobody has measured it
	rate float64 // median of what it got
}

// train takes the rate of the link that a train has read, and reports whether that is another
// link than before.
func (b *flowBelief) train(rate, spread float64) (changed bool) { return b.line.add(rate, spread) }

// flowed takes what one flow got in the steady state.
func (b *flowBelief) flowed(rate, spread float64) {
	b.bulk.add(rate, spread)
	if l, _ := b.line.value(); l > 0 {
		b.part.add(rate/l, spread)
	}
}

// atLeast takes what a flow got beside others: it gets that at least. Below what is believed,
// or near it, that is no news. It reports whether it was.
func (b *flowBelief) atLeast(rate float64, like siteFlow) (news bool) {
	if v, _ := b.flow(like); rate <= 1.1*v {
		return false
	}
	if l, _ := b.line.value(); l > 0 && rate > 1.1*l {
		b.line.add(rate, loneSpread)
	}
	b.flowed(rate, loneSpread)
	return true
}

// several takes the capacity that lanes reached together.
func (b *flowBelief) several(rate float64, lanes int) {
	if l, _ := b.line.value(); l > 0 {
		b.capacity, b.lanes = rate/l, lanes
	}
}

// flow returns what one flow gets, user bytes a second, and how uncertain that is, relative.
//
// A flow that filled its link when it was last measured fills it now, whatever trains say of
// the link since. One that did not gets what it got, or the link where that has become less:
// what holds a flow (loss, a shaper) stays when the link changes. A pair without a bulk probe of its
// own borrows that of like pairs. 0 means unknown.
func (b *flowBelief) flow(like siteFlow) (rate, spread float64) {
	line, lineSpread := b.line.value()
	if b.bulk.readings() == 0 {
		if like.part == 0 || line == 0 {
			return line, lineSpread
		}
		if like.part >= fills {
			return line * min(like.part, 1), lineSpread
		}
		return min(like.rate, line), max(lineSpread, loneSpread)
	}
	got, gotSpread := b.bulk.value()
	part, _ := b.part.value()
	switch {
	case line == 0:
		return got, gotSpread
	case part >= fills:
		return line * min(part, 1), max(lineSpread, min(gotSpread, loneSpread))
	}
	return min(got, line), gotSpread
}

// readings is how many measurements the flow stands on.
func (b *flowBelief) readings() int { return max(b.line.readings(), b.bulk.readings()) }

// several lanes' capacity and the lanes that reach it; 0, 0 if it was not measured. A flow that
// fills its link needs no others.
func (b *flowBelief) capacityOf() (rate float64, lanes int) {
	line, _ := b.line.value()
	part, _ := b.part.value()
	switch {
	case line == 0:
	case b.lanes > 0:
		return line * b.capacity, b.lanes
	case part >= fills:
		return line * min(part, 1), 1
	}
	return 0, 0
}

// wants says which probe would tell most, besides a train now and then.
type wants int

const (
	wantsNothing  wants = iota
	wantsBulk           // one flow was never measured, or the link has changed since
	wantsCapacity       // one flow leaves some of the link, and nobody knows whether several take it
)

// wants returns what is to be measured next of the pair, given what like pairs know.
func (b *flowBelief) wants(like siteFlow) wants {
	line, _ := b.line.value()
	part, _ := b.part.value()
	switch {
	case line == 0:
		return wantsNothing // a train comes first
	case part == 0 && like.part == 0:
		return wantsBulk
	case part == 0:
		return wantsNothing
	case part < fills && b.uncertain():
		return wantsBulk // what losses leave of a link wanders: several readings are to be averaged
	case part < fills && b.lanes == 0:
		return wantsCapacity
	}
	return wantsNothing
}

// uncertain reports whether more bulk probes would tell more.
func (b *flowBelief) uncertain() bool {
	n := b.bulk.readings()
	return n > 0 && n < rateWindow && medianOf(b.bulk.spreads)/math.Sqrt(float64(n)) > certain
}

// certain is the standard error from which on another reading is not worth its bytes.
const certain = 0.04

// linkChanged forgets what hung on the old link: the next bulk probe says how the new one is.
func (b *flowBelief) linkChanged() {
	b.capacity, b.lanes = 0, 0
	if part, _ := b.part.value(); part < fills {
		b.part = rateFilter{}
	}
}

// medianOf returns the upper median, 0 of nothing.
func medianOf(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
