package probe

import (
	"errors"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// When a joint look at a link (joint.go) is due, at whom, and which pairs of hosts it is for.

// nextJoint returns the joint look at a link that is due at this host, if one is: hosts that have searched it may lead one, and the lease sees to it that one does.
func (p *Prober) nextJoint(now time.Time) (longProbe, bool) {
	if p.cfg.Self.Site == "" {
		return longProbe{}, false
	}
	mates := 1
	sites := make(map[string]int)
	for _, q := range p.cfg.Peers() {
		if sites[q.site()]++; q.site() == p.cfg.Self.site() {
			mates++
		}
	}
	for _, t := range p.roster().teams {
		if t.name == p.cfg.Self.site() || min(mates, sites[t.name]) < 2 || !ourWay(p.cfg.Self.site(), t.name, 0, now) {
			continue
		}
		p.mu.Lock()
		s := p.links[t.name]
		due := s != nil && !s.searchedAt.IsZero() && !now.Before(s.joint.notBefore)
		again, young := due && s.again, due && now.Sub(s.since) < searchFirst
		p.mu.Unlock()
		if !due || young && p.searching(t.name) {
			continue
		}
		if l, ok := p.longTo(KindCapacity, t.name, ""); ok && l.rtt > 0 {
			if l.held, l.lanes = p.rec.portHeld(l.peer.Name, again); l.lanes > 0 {
				l.joint, l.again = true, again
				return l, true
			}
		}
	}
	return longProbe{}, false
}

// searching reports whether a link to or from this site or another is still to be searched: first searches tell more, and wait for the same hosts.
func (p *Prober) searching(site string) bool {
	self := p.cfg.Self.site()
	teams := p.roster().teams
	for _, a := range teams {
		for _, b := range teams {
			if a.name == b.name || a.name != self && a.name != site && b.name != self && b.name != site {
				continue
			}
			if !p.rec.searched(a.hosts, b.hosts) {
				return true
			}
		}
	}
	return false
}

// searched reports whether a host of from is known to have searched the link to those of to.
func (r *recorder) searched(from, to []string) bool {
	if r.cfg.Known == nil {
		return true
	}
	for _, a := range from {
		for _, b := range to {
			if e, ok := r.cfg.Known(a, b); ok && e.Has(netmap.FieldCapacity|netmap.FieldLanes) {
				return true
			}
		}
	}
	return false
}

// portHeld returns what a pair gets of the link to the site of peer, and over how many lanes, if somebody has searched, ports held all who have,
// and nobody has told what several pairs get, or it is to be looked for again; otherwise no lanes.
func (r *recorder) portHeld(peer string, again bool) (rate netmap.BytesPerSec, lanes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	carried := netmap.BytesPerSec(0)
	for _, c := range r.claimsTo(peer) {
		if c.e.Has(netmap.FieldCarried) {
			carried = max(carried, c.e.Carried)
		}
		switch {
		case !c.e.Has(netmap.FieldCapacity | netmap.FieldLanes):
		case !netmap.PortHolds(c.e.Capacity, r.port(c.from, true), r.port(c.to, false)):
			return 0, 0
		default:
			rate, lanes = max(rate, c.e.Capacity), max(lanes, min(c.e.Lanes, glanceLanes), 1)
		}
	}
	if carried >= carriedMore*rate && !again {
		return 0, 0
	}
	return rate, lanes
}

// A jointPair is a host of this site, "" for this one, and one of the other that it sends to.
type jointPair struct{ from, to string }

// jointPairs returns pairs of different hosts, this host's own first.
func (p *Prober) jointPairs(peer Peer) []jointPair {
	var mates, theirs []string
	for _, q := range p.cfg.Peers() {
		switch {
		case q.site() == p.cfg.Self.site() && q.Name != p.cfg.Self.Name:
			mates = append(mates, q.Name)
		case q.site() == peer.site() && q.Name != peer.Name:
			theirs = append(theirs, q.Name)
		}
	}
	slices.Sort(mates)
	slices.Sort(theirs)
	p.mu.Lock()
	p.rng.Shuffle(len(mates), func(i, j int) { mates[i], mates[j] = mates[j], mates[i] })
	p.rng.Shuffle(len(theirs), func(i, j int) { theirs[i], theirs[j] = theirs[j], theirs[i] })
	p.mu.Unlock()
	pairs := []jointPair{{"", peer.Name}}
	for i := range min(len(mates), len(theirs), jointMost-1) {
		pairs = append(pairs, jointPair{mates[i], theirs[i]})
	}
	return pairs
}

// jointLooked says when this host may have others look at a link with it again.
func (p *Prober) jointLooked(l longProbe, err error) {
	if err != nil {
		p.cfg.Log.Debug("no joint look", "peer", l.peer.Name, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally(err)
	if s := p.links[l.peer.site()]; s != nil {
		s.again = errors.Is(err, errJointShort) || s.again && errors.As(err, new(*BusyError))
		p.reschedule(&s.joint, jointKept, err)
	}
}
