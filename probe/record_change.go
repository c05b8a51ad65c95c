package probe

import (
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// The pairs between two sites share a link. When one of them shows that the link has changed, all
// others are of a link that is no more until they have been looked at. Every host of the site learns of
// it, from its own trains or from what the map says of the others', and looks at its own pairs at once.
const (
	// shiftAge is for how long a change makes older readings urgent. What could not be measured until
	// then is left to the tournament.
	shiftAge = 2 * time.Minute
	// shiftRest is the least time between two changes of a link that a host believes on the word of
	// others. Each costs trains.
	shiftRest = 10 * time.Second
	// shiftEvery is how often it looks what the others say.
	shiftEvery = time.Second
	// shiftAll is up to how many pairs of two sites are all looked at after a change: 32 trains of 8
	// packets take 2 s of a link of 1.2 Mbit/s. Of more, each host looks at shiftSome of its own: the
	// others are taken to have changed with them ([netmap.Freshen]) until their turns.
	shiftAll  = 32
	shiftSome = 2
)

// A shift is a change of the link from this host's site to another.
type shift struct {
	at   time.Time // when this host learned of it
	line float64   // user bytes a second, since then
}

// shifted notes that the link to site has had another rate since now. The caller holds the lock.
func (r *recorder) shifted(site string, line float64, now time.Time) {
	if site != "" && site != r.cfg.Self.site() {
		r.shifts[site] = shift{now, line}
		if r.moved != nil {
			r.moved()
		}
	}
}

// confirms reports whether rate is what the link to site is said to have since its last change. The
// caller holds the lock.
func (r *recorder) confirms(site string, rate float64, now time.Time) bool {
	s, ok := r.shifts[site]
	return ok && now.Sub(s.at) <= shiftAge && apart(rate, s.line) <= sameRate
}

// outdated reports whether the link to peer's site has changed since this host's last train to
// peer. The caller holds the lock.
func (r *recorder) outdated(peer, site string, now time.Time) bool {
	s, ok := r.shifts[site]
	p := r.pairs[peer]
	if !ok || p == nil || now.Sub(s.at) > shiftAge || !p.trained.Before(s.at) {
		return false
	}
	line, _ := p.out.line.value()
	return line > 0 && apart(line, s.line) > outdated && apart(float64(p.last.Bandwidth), s.line) > outdated
}

// isOutdated is outdated for callers without the lock.
func (r *recorder) isOutdated(peer, site string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outdated(peer, site, now)
}

// lines are the rates of the link that the pairs of others showed when they were looked at last.
type lines map[[2]string]float64

// listen looks what mates, the other hosts of this site, say of their pairs with peers, of another
// site. One that says another rate than before has seen a change of the link, or of its own port: a train of
// this host will tell which. What it said first is no change.
func (r *recorder) listen(mates []string, site string, peers []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.shifts[site].at) < shiftRest {
		return // with the old lines: what changes meanwhile is noticed later
	}
	before, seen := r.lines[site], make(lines)
	for _, from := range mates {
		for _, to := range peers {
			line := r.lineOf(from, to)
			if line == 0 {
				continue
			}
			key := [2]string{from, to}
			seen[key] = line
			if was := before[key]; was > 0 && apart(line, was) > outdated {
				r.shifted(site, line, now)
			}
		}
	}
	r.lines[site] = seen
}

// lineOf returns the rate of the link as the map has it of a pair, 0 if nobody has measured it.
func (r *recorder) lineOf(from, to string) float64 {
	e, ok := r.cfg.Known(from, to)
	switch {
	case !ok || !e.Has(netmap.FieldBandwidth) || e.Source < netmap.SourceProbed:
		return 0
	case e.Has(netmap.FieldLine) && e.Line > 0:
		return float64(e.Line)
	}
	return float64(e.Bandwidth)
}

// behind returns a peer, of those of another site, to which a train is wanted at once: the link has changed
// since the last one. pairs is how many pairs the two sites have; first is the index of the peer with which to
// begin, so that hosts do not all begin with the same. It returns "" if there is none.
func (r *recorder) behind(site string, peers []string, pairs, first int, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.shifts[site]
	if !ok {
		return ""
	}
	var open []string
	looked := 0
	for i := range peers {
		peer := peers[(first+i)%len(peers)]
		if r.outdated(peer, site, now) {
			open = append(open, peer)
		} else if p := r.pairs[peer]; p != nil && !p.trained.Before(s.at) {
			looked++
		}
	}
	if len(open) == 0 || pairs > shiftAll && looked >= shiftSome {
		return ""
	}
	return open[0]
}

// odd reports whether what is believed of peer stands on one train, and lies apart from what like pairs have:
// when that was read there may have been none to compare with.
func (r *recorder) odd(peer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pairs[peer]
	return p != nil && p.out.line.readings() == 1 && p.out.line.doubtful(r.like(peer).line)
}

// forgetShifts drops what is too old, and what is of sites that keep does not hold.
func (r *recorder) forgetShifts(keep []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for site, s := range r.shifts {
		if now.Sub(s.at) > shiftAge || !slices.Contains(keep, site) {
			delete(r.shifts, site)
		}
	}
	for site := range r.lines {
		if !slices.Contains(keep, site) {
			delete(r.lines, site)
		}
	}
}
