package probe

import (
	"math"
	"slices"
	"time"
)

// What losses at random leave of a flow is read by counting them, and a loss is dear: of one packet in a thousand each costs 1.3 MB.
// So all that have been seen of a link count, by whichever host and probe. A bulk probe tells how a flow's rate goes with
// the losses that this flow has met, which it knows to a few per cent after some 20 of them, while the rate itself is known to 10 %;
// the losses of all trains and bulk probes of all pairs tell how many are met in the long run. The rate that follows is
// what the bulk probe has read times √(its share of losses / the share that all have seen): a ratio estimate (Cochran, Sampling
// Techniques, 3rd ed., chapter 6).

const (
	// heldLosses is of how many losses at least a share is made.
	heldLosses = 4
	// heldNoise over √n is by how much a flow that has met n losses is off from what as many make of a flow in the mean: they come
	// early or late, or close together. It is 0.18 to 0.24 in a model with 1 % or less lost, for n from 12 to 50.
	heldNoise = 0.22
	// heldModel is by how much HeldRate is off for a flow of which nothing was seen.
	heldModel = 0.10
	// ownHeld is the part of a pair's own reading in what it says, beside that of like pairs. All of them go by the same losses, and each is off by its own
	// noise, so the mean is nearer; but what others say holds what this pair said before, and with less of its own
	// the pairs would follow new losses slowly.
	ownHeld = 1. / 3
)

// HeldRate returns what losses leave of a flow, user bytes a second, if they fall at random: congestion control gains
// a packet a round trip and gives back 30 % at a loss, which comes to a window of √(1.7/0.6/p) packets (Mathis, Semke, Mahdavi
// and Ott, 1997, with quic-go's factor in the place of a half). +Inf where nothing is known.
func HeldRate(loss float64, rtt time.Duration) float64 {
	if !(loss > 0) || rtt <= 0 {
		return math.Inf(1)
	}
	return math.Sqrt(1.7/0.6/loss) * userPayload / rtt.Seconds()
}

// A lossHeld is what a law says that losses leave of one flow, user bytes a second, and how uncertain the losses make it. A rate of 0 means unknown.
type lossHeld struct{ rate, spread float64 }

// lossHeldOf applies [HeldRate] to what was counted.
func lossHeldOf(c lossCount, rtt time.Duration) lossHeld {
	if c.lost < heldLosses || c.sent < c.lost || rtt <= 0 {
		return lossHeld{}
	}
	return lossHeld{HeldRate(c.share(), rtt), 0.5 / math.Sqrt(c.lost)}
}

// lost takes what a bulk probe got that losses held, and what the losses that it has met itself should have left of it.
func (b *flowBelief) lost(rate float64, own lossHeld) {
	if own.rate > 0 {
		b.held.add(rate/own.rate, 2*heldNoise*own.spread)
	}
}

// byLosses returns what a flow gets by all losses that were seen of the link. ok is false where it has not been
// seen to be held by losses.
func (b *flowBelief) byLosses(all lossHeld) (rate, spread float64, ok bool) {
	n := b.held.readings()
	if n == 0 || all.rate <= 0 {
		return 0, 0, false
	}
	factor, unsure := b.held.value()
	if n == 1 { // a lone reading is not trusted below loneSpread elsewhere, but this one has the law beside it
		unsure = b.held.spreads[0]
	}
	factor = weighted(factor, unsure, 1, heldModel)
	return factor * all.rate, math.Hypot(all.spread, min(unsure, heldModel)), true
}

// contradicts reports whether a flow that seemed to fill its link got far more than all losses that were seen leave of one. It may have met few by
// chance for as long as it was watched; not twice in a row.
func (b *flowBelief) contradicts(rate float64, all lossHeld) bool {
	if n := b.bulk.readings(); n > 0 && apart(b.bulk.rates[n-1], rate) <= sameRate {
		return false
	}
	held, spread, ok := b.byLosses(all)
	if !ok {
		held, spread = all.rate, math.Hypot(all.spread, heldModel)
	}
	return held > 0 && rate > held && unequal(rate, 0, held, spread)
}

// lossesOf returns the losses that all pairs of two sites have counted: own, of one pair of self, and what claims say of the others.
// A host that has counted far more or less than this one is left out: its path is another, or it lies.
func lossesOf(self string, own lossCount, claims []claim) lossCount {
	var hosts []string
	counts := map[string]lossCount{self: own}
	for _, c := range claims {
		n := lossCount{float64(c.e.LossOf), float64(c.e.LossOf) * c.e.Loss}
		if !(n.sent > 0 && n.lost >= 0 && n.lost <= n.sent) {
			continue
		}
		if c.from != self && !slices.Contains(hosts, c.from) {
			hosts = append(hosts, c.from)
		}
		counts[c.from] = counts[c.from].plus(n)
	}
	base := counts[self]
	all := base
	for _, h := range hosts {
		if counts[h].like(base) {
			all = all.plus(counts[h])
		}
	}
	return all
}
