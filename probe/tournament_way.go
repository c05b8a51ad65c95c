package probe

import "time"

// firstSearch returns the first search of a young link that this host is to do, or its repetition where that has found no gain: it comes before
// bulk probes, which may take many times as long and tell less. due says that there is one; while it is not the turn of its direction its rate is 0, and nothing else begins.
func (p *Prober) firstSearch(now time.Time) (l longProbe, due bool) {
	for _, t := range p.roster().teams {
		l, ok := p.searchOf(t.name, now)
		switch {
		case !ok:
		case ourWay(p.cfg.Self.site(), t.name, l.takes(), now):
			return l, true
		default:
			due = true
		}
	}
	return longProbe{}, due
}

// searchOf returns the first search of the link to a site, or its repetition, if this host is to do it now.
func (p *Prober) searchOf(site string, now time.Time) (l longProbe, ok bool) {
	p.mu.Lock()
	s := p.links[site]
	if s == nil || site == p.cfg.Self.site() || s.bulked == "" || !s.unsearched() || now.Sub(s.since) >= youth || now.Before(s.capacity.notBefore) {
		p.mu.Unlock()
		return longProbe{}, false
	}
	peer, again, patient := s.bulked, s.doubted, s.patient(now)
	p.mu.Unlock()
	if !again && !p.rec.searches(peer, patient) {
		return longProbe{}, false
	}
	return p.longTo(KindCapacity, site, peer)
}

// follows returns the first search of a link behind the bulk probe that has just read what one flow gets of it, if the turn of its direction
// is not over: then nobody rests first, and the link is known a turn earlier.
func (p *Prober) follows(done longProbe, err error) (l longProbe, ok bool) {
	site, now := done.peer.site(), time.Now()
	if err != nil || done.kind != KindBandwidth || p.pressed() || !ourWay(p.cfg.Self.site(), site, 0, now) {
		return longProbe{}, false
	}
	return p.searchOf(site, now)
}

// inTurn reports whether a long probe may still begin as far as the turns of directions go: it has waited for its lease or its peer.
func (p *Prober) inTurn(l longProbe) bool {
	self, site := p.cfg.Self.site(), l.peer.site()
	return l.glance || l.kind == KindLogP || site == self || ourWay(self, site, l.takes(), time.Now())
}

// unsearched reports whether this host has not searched the link yet, or only once and without a gain.
func (l *linkState) unsearched() bool { return l.searchedAt.IsZero() || l.doubted }

// patient reports whether a search waits for a second opinion on what one flow gets. That waits for the link's budget, and on a
// busy host each seems to have met strangers.
func (l *linkState) patient(now time.Time) bool { return now.Sub(l.since) < searchFirst }

// ourWay reports whether a long probe between two sites that takes so long may begin from this one: one in each direction at a time make the
// acknowledgements of both wait, and read a tenth too little, on slow links a quarter. One that takes longer than a turn begins in its first third.
func ourWay(from, to string, takes time.Duration, now time.Time) bool {
	slot, into := now.UnixNano()/int64(wayTurn), time.Duration(now.UnixNano()%int64(wayTurn))
	return (slot%2 == 0) == (from < to) && into < min(max(wayTurn-takes, wayTurn/3), wayTurn*3/4)
}
