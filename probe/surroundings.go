package probe

import (
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// look returns the peers that this host measures, and brings its memory in line: a peer
// that has left is forgotten. In small grids they are all; see [roster.partners]. The
// caller may change the slice.
func (p *Prober) look() []Peer {
	round, _ := roundAt(time.Now())
	if _, ok := p.surroundings(round); !ok {
		p.survey(round)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ps := make([]Peer, 0, len(p.around.partners))
	for _, q := range p.around.peers {
		if p.around.partners[q.Name] {
			ps = append(ps, q)
		}
	}
	return ps
}

// roster returns the roster of the members.
func (p *Prober) roster() *roster {
	round, _ := roundAt(time.Now())
	r, ok := p.surroundings(round)
	if !ok {
		p.survey(round)
		r, _ = p.surroundings(round)
	}
	return r
}

// surroundings returns the roster, and whether all that was seen of the members is young enough.
func (p *Prober) surroundings(round int64) (r *roster, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.around
	fresh := a.roster != nil && time.Since(a.at) < lookTime && round-a.round < partnersRounds
	return a.roster, fresh
}

// survey looks at the membership.
func (p *Prober) survey(round int64) {
	self := p.cfg.Self
	peers := slices.DeleteFunc(slices.Clone(p.cfg.Peers()), func(q Peer) bool { return q.Name == self.Name })
	var sum uint64 // the same in any order
	for _, q := range peers {
		sum += mix(q.Name, mix(q.Site, 1))
	}
	p.mu.Lock()
	a := &p.around
	a.at = time.Now()
	if a.roster != nil && a.sum == sum && len(a.peers) == len(peers) && round-a.round < partnersRounds {
		p.mu.Unlock()
		return
	}
	r := a.roster
	if r == nil || a.sum != sum || len(a.peers) != len(peers) {
		r = newRoster(append(slices.Clone(peers), self))
	}
	partners := make(map[string]bool)
	for _, name := range r.partners(round, self.site(), self.Name) {
		partners[name] = true
	}
	for _, q := range r.foreign(round, self.site(), self.Name) {
		partners[q.Name] = true
	}
	*a = surroundings{a.at, sum, r, peers, partners, round}
	keep := make(map[string]bool, len(peers))
	sites := make(map[string]bool)
	for _, q := range peers {
		keep[q.Name], sites[q.site()] = true, true
		if p.peers[q.Name] == nil {
			p.peers[q.Name] = &peerState{since: a.at}
		}
		if p.links[q.site()] == nil {
			p.links[q.site()] = newLinkState(a.at, p.rng)
		}
	}
	for name := range p.peers {
		if !keep[name] {
			delete(p.peers, name)
		}
	}
	for site := range p.links {
		if !sites[site] {
			delete(p.links, site)
			delete(p.alarmed, site)
		}
	}
	p.mu.Unlock()
	p.rec.forget(keep)
}

// in reports of a peer whether it is of site.
func in(site string) func(Peer) bool {
	return func(q Peer) bool { return q.site() == site }
}

// candidates returns those connected peers of which is true that this host measures, as the
// choice of a train sees them. Peers are connected by the pingers, in an order and at a pace
// that suits the links.
func (p *Prober) candidates(which func(Peer) bool) []candidate {
	var cs []candidate
	now := time.Now()
	for _, q := range p.look() {
		if !which(q) {
			continue
		}
		if _, up := p.cfg.Endpoint.Stats(q.Name); !up {
			continue
		}
		c := candidate{Peer: q, important: p.cfg.Important(p.cfg.Self.Name, q.Name)}
		if e, ok := p.rec.known(q.Name); ok && e.Has(netmap.FieldBandwidth) && e.Source >= netmap.SourceProbed {
			c.measured, c.spread = e.Measured, e.Spread
		}
		c.outdated = p.rec.isOutdated(q.Name, q.site(), now)
		cs = append(cs, c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cs {
		if s := p.peers[cs[i].Name]; s != nil {
			cs[i].notBefore, cs[i].suspect = s.bandwidth.notBefore, !s.suspected.IsZero()
		}
	}
	return cs
}
