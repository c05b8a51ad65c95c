package netmap

import (
	"cmp"
	"slices"
	"sort"
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
	needed := quorumOf(pairs)
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
		if needed.first(witnesses) > 0 {
			return witnesses
		}
	}
	return nil
}

// A quorum is how many senders and receivers must have seen a change of a link: two, or all there are.
type quorum struct{ senders, receivers int }

func quorumOf(pairs []dated) quorum {
	senders, receivers := map[int]bool{}, map[int]bool{}
	for _, p := range pairs {
		senders[p.from], receivers[p.to] = true, true
		if len(senders) > 1 && len(receivers) > 1 {
			break
		}
	}
	return quorum{min(2, len(senders)), min(2, len(receivers))}
}

// first returns how many of witnesses, from the first on, it takes; 0 if all are too few.
func (n quorum) first(witnesses []dated) int {
	senders, receivers := map[int]bool{}, map[int]bool{}
	for i, p := range witnesses {
		senders[p.from], receivers[p.to] = true, true
		if len(senders) >= n.senders && len(receivers) >= n.receivers {
			return i + 1
		}
	}
	return 0
}

// A history is what the witnesses of a link's last change have seen, the newest first. Who asks what was seen since a time wants a beginning of it,
// so the medians of all of these are made once: of 16,384 pairs each would else sort what most of the others have seen.
type history struct {
	at       []time.Time
	now, was []BytesPerSec // at k: medians over the first k+1
	least    int           // how many are enough to speak of the link
}

// historyOf returns what witnesses, of pairs, have seen; they are sorted as by [turned].
func historyOf(witnesses, pairs []dated) history {
	h := history{least: quorumOf(pairs).first(witnesses)}
	for _, w := range witnesses {
		h.at = append(h.at, w.turn.at)
		h.now = append(h.now, w.e.Bandwidth)
		h.was = append(h.was, w.turn.was)
	}
	h.now, h.was = mediansSoFar(h.now), mediansSoFar(h.was)
	return h
}

// behind returns the rate that the link has now and the one before, if it has changed since p was measured:
// enough of the witnesses have seen that later.
func (h history) behind(p dated) (rate, old BytesPerSec, ok bool) {
	later := sort.Search(len(h.at), func(i int) bool { return !h.at[i].After(p.e.Measured) })
	if later == 0 || later < h.least {
		return 0, 0, false
	}
	rate, old = h.now[later-1], h.was[later-1]
	return rate, old, differ(p.e.Bandwidth, rate) > freshOther
}

// mediansSoFar returns at k the median of the first k+1 of v, the upper one of two.
func mediansSoFar(v []BytesPerSec) []BytesPerSec {
	values := slices.Compact(slices.Sorted(slices.Values(v)))
	seen := make(ranks, len(values)+1)
	out := make([]BytesPerSec, len(v))
	for i, x := range v {
		rank, _ := slices.BinarySearch(values, x)
		seen.add(rank, 1)
		out[i] = values[seen.nth((i+1)/2)]
	}
	return out
}
