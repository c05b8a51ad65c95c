package netmap

import (
	"cmp"
	"slices"
	"time"
)

// A turn is the last change of a pair's bandwidth, as one map has seen it. With it a change of a link can be
// told from hosts that have ports of different rates, when only a few pairs are left that show the old
// rate. A map that has come later knows of none.
type turn struct {
	was BytesPerSec // before it; 0: no change was seen
	at  time.Time   // of the first measurement that showed it
}

// turning returns the turn of a pair of which now is believed, and e was said last; e may be nil.
func (e *entry) turning(now Estimate) turn {
	switch {
	case e == nil || e.kind == overhead || !e.est.Has(FieldBandwidth) || !now.Has(FieldBandwidth):
		return turn{}
	case differ(e.est.Bandwidth, now.Bandwidth) > freshOther:
		return turn{e.est.Bandwidth, now.Measured}
	}
	return e.turn
}

// turnSeeds is how many changes are looked at for one that several pairs have seen.
const turnSeeds = 16

// turned returns the pairs, all from one site to another, that have seen the last change of the link:
// all of them from about the same rate to about the same, at least two senders and two receivers, or all there
// are. It is empty if there was none. It sorts pairs.
func turned(pairs []dated) (witnesses []dated) {
	slices.SortFunc(pairs, func(a, b dated) int { // newest turn first
		return cmp.Or(b.turn.at.Compare(a.turn.at), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, seed := range pairs[:min(turnSeeds, len(pairs))] {
		if seed.turn.was <= 0 {
			break
		}
		witnesses = nil
		for _, p := range pairs {
			if p.turn.was > 0 && differ(p.e.Bandwidth, seed.e.Bandwidth) <= freshAlike && differ(p.turn.was, seed.turn.was) <= freshAlike {
				witnesses = append(witnesses, p)
			}
		}
		if several(witnesses, pairs) {
			return witnesses
		}
	}
	return nil
}

// several reports whether witnesses are of two senders and two receivers of pairs, or of all there are.
func several(witnesses, pairs []dated) bool {
	count := func(ps []dated) (from, to int) {
		senders, receivers := map[int]bool{}, map[int]bool{}
		for _, p := range ps {
			senders[p.from], receivers[p.to] = true, true
		}
		return len(senders), len(receivers)
	}
	from, to := count(witnesses)
	most, mostTo := count(pairs)
	return from >= min(2, most) && to >= min(2, mostTo)
}
