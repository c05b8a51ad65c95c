package probe

import (
	"math"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// fills is the share of a link from which on one flow is said to fill it: what the flow gets
// then follows the link. Headers, acknowledgements of the other direction and the saw tooth of
// a congestion window cost some per cent of a link.
const fills = 0.90

// follows is [netmap.Follows]. What a flow that
// fills its link leaves of it in a young grid, beside the agents' own talk, may be a tenth, and what strangers leave grows
// with the link as well.
const follows = netmap.Follows

// A flowBelief is what is believed of one ordered pair: the rate of its narrowest link, which
// trains read, and what one flow gets of it, which bulk probes and exchanges read. The two
// differ where other traffic takes a share, where packets are lost, or where the network holds
// each flow (then several lanes get more, see knee). Trains are cheap and bulk probes are not,
// so a train corrects both: see [flowBelief.flow].
type flowBelief struct {
	line rateFilter // user bytes a second of the narrowest link
	bulk meanFilter // user bytes a second of one flow
	part meanFilter // bulk over line, when each was read
	held meanFilter // bulk over what the losses of that bulk probe should have left of a flow, see flow_held.go

	capacity float64 // of several lanes, as a part of line when it was read; 0 unknown
	lanes    int     // that reach it
}

// A siteFlow is what the bulk probes of like pairs have found, those between the same two
// sites: the link is the same, and so is mostly what holds a flow on it.
type siteFlow struct {
	part   float64 // what one flow got of the link, 0 if nobody has measured it
	rate   float64 // what it got
	spread float64 // relative standard error of both
	pairs  int     // that have measured it
	lanes  int     // that reach the capacity, of one that has searched for it; 0 if nobody has

	contested bool // two hosts have measured it, and disagree

	losses lossHeld // what all losses that were seen of the link should leave of a flow, this pair's own among them
}

// siteFlowOf returns what the estimates of like pairs say, those of them that stand on bulk
// probes of their own: they are the ones that hold the rate of the link beside that of a flow.
func siteFlowOf(like []netmap.Estimate) siteFlow {
	var s siteFlow
	var parts, rates meanFilter
	for _, e := range like {
		if e.Has(netmap.FieldLanes) && e.Source >= netmap.SourceProbed {
			s.lanes = max(s.lanes, e.Lanes)
		}
		sane := func(r netmap.BytesPerSec) bool { return 1 <= r && float64(r) <= maxRate }
		if !e.Has(netmap.FieldLine|netmap.FieldBandwidth) || e.Source < netmap.SourceProbed || !sane(e.Line) || !sane(e.Bandwidth) {
			continue
		}
		spread := float64(maxSpread)
		if e.Spread < maxSpread {
			spread = max(e.Spread, leastSpread)
		}
		parts.rates, parts.spreads = append(parts.rates, float64(e.Bandwidth/e.Line)), append(parts.spreads, spread)
		rates.rates, rates.spreads = append(rates.rates, float64(e.Bandwidth)), append(rates.spreads, spread)
		s.pairs++
	}
	// One pair that is unlike the others says nothing of how sure these are.
	s.part, s.spread = parts.trimmed().value()
	s.rate, _ = rates.trimmed().value()
	return s
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
	if l, _ := b.line.value(); l > 0 && rate > 1.1*l && b.line.add(rate, loneSpread) {
		b.linkChanged()
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
// A flow that filled most of its link when it was last measured does so now, whatever trains say of
// the link since. One that did not gets what it got, or the link where that has become less:
// what holds a flow (loss, a shaper) stays when the link changes. A pair without a bulk probe of its
// own borrows that of like pairs. 0 means unknown.
func (b *flowBelief) flow(like siteFlow) (rate, spread float64) {
	line, lineSpread := b.line.value()
	if b.bulk.readings() == 0 || b.part.readings() == 0 && line > 0 && like.part > 0 { // none, or of the link as it was
		if like.part == 0 || line == 0 {
			return line, lineSpread
		}
		if like.part >= follows {
			return followed(line*min(like.part, 1), lineSpread, like.rate, max(like.spread, loneSpread))
		}
		return min(like.rate, line), max(lineSpread, loneSpread)
	}
	got, part, gotSpread := b.pooled(like)
	if held, heldSpread, ok := b.byLosses(like.losses); ok && part < follows && !unequal(held, heldSpread, got, gotSpread) {
		got, gotSpread = held, heldSpread
		if like.part > 0 && !b.unlike(like) {
			got = ownHeld*held + (1-ownHeld)*like.rate
		}
	}
	switch {
	case line == 0:
		return got, gotSpread
	case part >= follows:
		rate, spread = followed(line*min(part, 1), lineSpread, got, max(gotSpread, loneSpread))
		return rate, max(spread, min(gotSpread, loneSpread))
	}
	return min(got, line), gotSpread
}

// followed returns what a flow gets that follows its link, by what trains read of the link and by what it was read to get itself. Trains
// know of a change first, so they count for most where they are sure. On a path with jitter each reading is off by half or more, and
// a flow knows its rate better than their median does, unless the two contradict each other.
func followed(byTrains, trainSpread, read, readSpread float64) (rate, spread float64) {
	if read <= 0 || unequal(byTrains, trainSpread, read, readSpread) {
		return byTrains, trainSpread
	}
	return weighted(byTrains, trainSpread, read, readSpread), min(trainSpread, readSpread)
}

// pooled returns what one flow gets and which part of the link that is, by the pair's own bulk
// probes and those of like pairs together, each weighted by how sure it is: losses make one
// bulk probe wander by 10 %, and those of like pairs wander about the same value. A pair that differs
// from its like stands alone, from its second bulk probe on; the first may have been
// wrong. spread is that of the own readings alone: like pairs must not take for news what they have
// said themselves. What like pairs say holds what this one has told them: with ownPart the values of a site pair tend to
// the mean of all readings, and without it each would stay half-way to its own.
func (b *flowBelief) pooled(like siteFlow) (got, part, spread float64) {
	got, spread = b.bulk.value()
	part, partSpread := b.part.value()
	switch {
	case part == 0 || like.part == 0: // what it got of the old link, or nobody to compare with
		return got, part, spread
	case !b.unlike(like):
		return weighted(got, spread/ownPart, like.rate, like.spread), weighted(part, partSpread/ownPart, like.part, like.spread), spread
	case b.bulk.readings() == 1 && like.pairs > 1:
		return like.rate, like.part, max(spread, like.spread)
	}
	return got, part, spread
}

// unlike reports whether the pair's own bulk probes contradict those of like pairs.
func (b *flowBelief) unlike(like siteFlow) bool {
	part, spread := b.part.value()
	return part > 0 && like.part > 0 && apart(part, like.part) > max(unlikeRate, min(3*math.Hypot(spread, like.spread), 0.5))
}

// ownPart is by which part the error of like pairs counts beside a pair's own.
const ownPart = 1. / 3

// unlikeRate is how far from its like a pair must lie at least to be another case.
const unlikeRate = 0.25

// weighted returns the mean of a and b, by the relative standard errors sa and sb.
func weighted(a, sa, b, sb float64) float64 {
	wa, wb := 1/max(sa*sa, leastSpread*leastSpread), 1/max(sb*sb, leastSpread*leastSpread)
	return (a*wa + b*wb) / (wa + wb)
}

// readings is how many measurements the flow stands on.
func (b *flowBelief) readings() int { return max(b.line.readings(), b.bulk.readings()) }

// capacityOf returns several lanes' capacity and the lanes that reach it; 0, 0 if it was not
// measured. That a flow gets all that trains read is no measurement of it: where the network holds each
// flow, it holds trains as well.
func (b *flowBelief) capacityOf() (rate float64, lanes int) {
	if line, _ := b.line.value(); line > 0 && b.lanes > 0 {
		return line * b.capacity, b.lanes
	}
	return 0, 0
}

// doubt returns the least spread of an estimate that stands on trains alone, where a flow would get but held of rate.
// It may have been a queue that lost the packets, so the rate itself is left for a bulk probe to say.
func (b *flowBelief) doubt(like siteFlow, rate, held float64) float64 {
	if b.bulk.readings() > 0 || like.part > 0 || held >= rate {
		return 0
	}
	return 1 - held/rate
}

// wants says which probe would tell most, besides a train now and then.
type wants int

const (
	wantsNothing  wants = iota
	wantsBulk           // one flow was never measured, or the link has changed since
	wantsCapacity       // nobody knows whether several lanes get more than one
)

// wants returns what is to be measured next of the pair, given what like pairs know.
func (b *flowBelief) wants(like siteFlow) wants {
	line, _ := b.line.value()
	part, _ := b.part.value()
	switch {
	case line == 0:
		return wantsNothing // a train comes first
	case part == 0 && (like.part == 0 || like.contested):
		return wantsBulk
	case part == 0:
		return wantsNothing
	case b.second() || b.bulk.readings() == 1 && b.unlike(like):
		return wantsBulk // a second opinion
	case b.lanes == 0 && like.lanes == 0:
		return wantsCapacity
	case part < fills && b.uncertain(like):
		return wantsBulk // what losses leave of a link wanders: several readings are to be averaged
	}
	return wantsNothing
}

// second reports whether the only bulk probe found most of the link, and not all: other packets of the moment may have been in its way.
func (b *flowBelief) second() bool {
	part, _ := b.part.value()
	return b.bulk.readings() == 1 && part >= plausible && part < fills
}

// shared reports whether strangers seem to be on the link: one flow got neither all of what trains read nor less than half, and it has met no losses that
// explain that. A host that is busy reads the same.
func (b *flowBelief) shared(like siteFlow) bool {
	part := b.partOf(like)
	return part >= plausible && part < fills && b.held.readings() == 0
}

// uncertain reports whether more bulk probes would tell more.
func (b *flowBelief) uncertain(like siteFlow) bool {
	_, spread := b.bulk.value()
	if like.part > 0 && !b.unlike(like) {
		spread = 1 / math.Hypot(1/max(spread, leastSpread), 1/max(like.spread, leastSpread))
	}
	if _, held, ok := b.byLosses(like.losses); ok { // like pairs have counted the same losses
		spread = held
	}
	return b.bulk.readings() < meanWindow && spread > certain
}

// partOf returns which part of its link one flow gets, by the pair's own bulk probes and those of its like; 0 if nobody knows.
func (b *flowBelief) partOf(like siteFlow) float64 {
	if b.bulk.readings() == 0 {
		return like.part
	}
	_, part, _ := b.pooled(like)
	return part
}

// certain is the standard error from which on another reading is not worth its bytes.
const certain = 0.04

// linkChanged forgets what hung on the old link: the next bulk probe says how the new one is. The last one
// may have told of the change before the trains did, and was taken for a flow that is held then.
func (b *flowBelief) linkChanged() {
	if b.lanes > 1 { // one lane that fills its link fills the new one
		b.capacity, b.lanes = 0, 0
	}
	line, _ := b.line.value()
	if n := b.bulk.readings(); n > 0 && line > 0 && apart(b.bulk.rates[n-1], line) <= 1-fills {
		got, spread := b.bulk.rates[n-1], b.bulk.spreads[n-1]
		b.bulk, b.part = meanFilter{}, meanFilter{}
		b.flowed(got, spread)
	} else if part, _ := b.part.value(); part < follows {
		b.part = meanFilter{}
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
