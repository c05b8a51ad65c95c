package netmap

import (
	"cmp"
	"slices"
)

// The numbers of [Freshen].
const (
	freshAlike = 0.15 // how far the newest measurements may lie apart to speak of one link
	freshOther = 0.25 // how far from the older ones they must lie to speak of a change
)

// Freshen returns s corrected by its newest measurements. Between two sites a few pairs are
// measured often and most seldom, but they share a link: where the newest measurements of pairs
// from one site to another agree with each other and not with the older ones, the older ones are of
// a link that is no more, and what is believed of those pairs is what the link has now.
//
// One host's own port may have changed, and not the link. So the newest must be of two senders
// and of two receivers at least (or of all there are), of pairs that had the old rate before, as far as the map
// has seen it ([Map]), or else of hosts that show the old rate in an older pair: they could do it, and cannot any more. A pair that was slower than its like all
// along stays so. What is corrected becomes [SourcePredicted] and keeps its time, so a
// measurement of the pair itself counts for more. Pairs inside a site share no link and are left alone.
//
// It takes O(n² log n) for n hosts. s is not modified; the result is s where nothing changes.
func Freshen(s *Snapshot) *Snapshot {
	type direction struct{ from, to string }
	classes := map[direction][]dated{}
	n := s.N()
	for i := range n {
		for j := range n {
			e := s.Estimate(i, j)
			a, b := s.hosts[i].Site, s.hosts[j].Site
			if a == b || !e.Has(FieldBandwidth) || e.Source <= SourcePredicted || e.Measured.IsZero() {
				continue
			}
			d := direction{a, b}
			p := dated{from: i, to: j, e: e}
			if s.turns != nil {
				p.turn = s.turns[i*n+j]
			}
			classes[d] = append(classes[d], p)
		}
	}
	var est []Estimate
	correct := func(p dated, rate, old BytesPerSec) {
		if est == nil {
			est = slices.Clone(s.est)
		}
		est[p.from*n+p.to] = p.now(rate, old)
	}
	for _, pairs := range classes { // classes do not touch each other: order is free
		seen := false
		h := historyOf(turned(pairs), pairs)
		for _, p := range pairs {
			if rate, old, ok := h.behind(p); ok {
				correct(p, rate, old)
				seen = true
			}
		}
		if seen {
			continue
		}
		fresh, stale, rate := changed(pairs)
		for _, p := range stale {
			if len(fresh) > 0 {
				correct(p, rate, medianRate(stale))
			}
		}
	}
	if est == nil {
		return s
	}
	return s.With(est)
}

// A dated is a measured pair of hosts of two sites.
type dated struct {
	from, to int
	e        Estimate
	turn     turn
}

// changed splits pairs, all from one site to another, into the newest that show a new rate of
// the link and the older ones that do not. fresh is empty if the link has not changed, as far as
// can be told. It sorts pairs.
func changed(pairs []dated) (fresh, stale []dated, rate BytesPerSec) {
	slices.SortFunc(pairs, func(a, b dated) int { // newest first
		return cmp.Or(b.e.Measured.Compare(a.e.Measured), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	k := 0
	for k < len(pairs) && differ(pairs[k].e.Bandwidth, pairs[0].e.Bandwidth) <= freshAlike {
		k++
	}
	fresh, stale = pairs[:k], pairs[k:]
	if k == 0 || len(stale) == 0 {
		return nil, nil, 0
	}
	rate = medianRate(fresh)
	old := medianRate(stale)
	if differ(rate, old) <= freshOther {
		return nil, nil, 0
	}
	// Who is known to have had the old rate.
	sent, got := map[int]bool{}, map[int]bool{}
	senders, receivers := map[int]bool{}, map[int]bool{}
	for _, p := range pairs {
		senders[p.from], receivers[p.to] = true, true
	}
	for _, p := range stale {
		if differ(p.e.Bandwidth, old) <= freshAlike {
			sent[p.from], got[p.to] = true, true
		}
	}
	from, to := map[int]bool{}, map[int]bool{}
	for _, p := range fresh {
		if sent[p.from] && got[p.to] {
			from[p.from], to[p.to] = true, true
		}
	}
	if len(from) < min(2, len(senders)) || len(to) < min(2, len(receivers)) {
		return nil, nil, 0
	}
	return fresh, stale, rate
}

// now returns what is believed of a pair that was measured while its like had the rate old,
// and not since they have the rate link.
func (p dated) now(link, old BytesPerSec) Estimate {
	e := p.e
	switch {
	case differ(e.Bandwidth, old) <= freshOther:
		e.Bandwidth = link
	case e.Bandwidth > link:
		e.Bandwidth = link // faster than its like before, but nothing passes the link faster now
	default:
		return e // slower for a reason of its own
	}
	e.Source = SourcePredicted
	e.Spread = max(e.Spread, freshOther)
	if e.Has(FieldCapacity) {
		e.Known &^= FieldCapacity | FieldLanes // of the old link
		e = e.clean()
	}
	return e
}

func medianRate(pairs []dated) BytesPerSec {
	v := make([]BytesPerSec, len(pairs))
	for i, p := range pairs {
		v[i] = p.e.Bandwidth
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// differ is the relative distance of two rates, of the larger one.
func differ(a, b BytesPerSec) float64 {
	if a < b {
		a, b = b, a
	}
	return float64((a - b) / a)
}
