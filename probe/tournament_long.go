package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// Long probes load a link for round trips instead of packets: a bulk transfer says what
// one flow gets, a search for the knee what several get, LogP what messages of each size
// cost. They are done for a link between two sites by one pair of hosts at a time, which
// changes from one to the next, so that in time all have done one.
const (
	// bulkEvery is the time between two bulk probes of a directed link between sites,
	// capacityEvery between two searches for its knee, logpEvery between two models of the
	// pairs of one class. The budget may make it longer: a bulk probe takes about 30
	// round trips at the link's rate (see bulkCost), 430 kB at 1.16 Mbit/s × 100 ms, which such a
	// link pays for in 6 to 21 min. The first ones draw on the burst of first measurements.
	bulkEvery     = 20 * time.Minute
	capacityEvery = time.Hour
	logpEvery     = 4 * time.Hour
	// longStart is how long after the start of the agent the first may be: trains come first.
	longStart = 8 * time.Second
	// chatter is about what handshakes, first trains and rows of the map take of a link while the grid is
	// young: on a slow one the first bulk probe waits until it has had time to pass, at most longestChatter.
	// It is of chatterHosts hosts or more: fewer have fewer pairs.
	chatter        = 4 << 20
	chatterHosts   = 20
	longestChatter = time.Minute
	// wayTurn is how long the turn of one direction between two sites lasts: bulk probes begin early enough in it to end in it. It has no
	// measure in common with bulkTurn but a tenth of a second, so that each host's turns meet both.
	wayTurn = 13100 * time.Millisecond
	// logpStart is the same for LogP.
	logpStart = 2 * time.Minute
	// newcomer is for how long after it was met long probes wait for a host that trains have not measured: one that exchanges
	// data for long, or declines all, must not be what nothing more is learnt for.
	newcomer = time.Minute
	// longRest is how long a host rests after a long probe.
	longRest = 5 * time.Second
	// longRetry is the pause before a host asks again whose peer was taken.
	longRetry = 500 * time.Millisecond
	// bulkSoon is the least time between two of a host where the estimator lacks one, since there was none
	// or the link has changed.
	bulkSoon = time.Minute
	// bulkTurn is how long the turn of a host lasts that lacks one: what losses leave of a link is believed
	// when two hosts have seen it, and read to some per cent when the budget of several probes has gone into it.
	bulkTurn = 10 * time.Second
	// freshTurn is the same while no host of the site has done one, whoever it is.
	freshTurn = 2100 * time.Millisecond
	// capacitySoon is the same for searches.
	capacitySoon  = 5 * time.Minute
	leastBulk     = 96 << 10 // bytes; a LAN's round trip times its rate is less than a window
	logpTolerance = 0.05     // of what a model in the map may be off from what was measured, relative
	capacityCost  = 3        // bulk probes that a search for the knee costs where one lane is enough
	// logpPatience is how long LogP of a link between sites waits until bulk probes know it.
	logpPatience = 30 * time.Minute
	// firstTrains is how many first measurements of pairs a young link has to carry, about: those of two sites of 8 hosts.
	firstTrains = 64
	// longTime is what a long probe may take of a link's time where it is not the first: 0.28 % of an hour. Where the link is
	// full it ends far sooner; where losses decide, several short ones know as much as a long one.
	longTime = 10 * time.Second
	// searchPatience is after how long, and 20 round trips of slow start, a search should have got what is known of one lane.
	searchPatience = 3 * time.Second
	// searchGain is how many times as much as other first probes the first search of a link may take: it ends where twice the
	// lanes get no more, so it takes that only where the link carries as many times what trains have read.
	searchGain = 12
	// searchFirst is for how long after the start of a link its bulk probes of further hosts wait for the first search, and that for a
	// second opinion where strangers seem to be on the link.
	searchFirst = 2 * time.Minute
	// searchAgain is after how long the first search is repeated that has found no gain, or was cut short.
	searchAgain = time.Minute
	// firstPart is the part of the burst of a link that its first bulk probe may take: the rest is for that of a
	// second host.
	firstPart = 0.5
)

func newLinkState(now time.Time, rng *rand.Rand) *linkState {
	soon := func() schedule {
		return schedule{notBefore: now.Add(longStart + time.Duration(rng.Int64N(int64(longStart))))}
	}
	// LogP changes least, and takes two hosts' slots for longest: it waits until a grid is known.
	later := schedule{notBefore: now.Add(logpStart + time.Duration(rng.Int64N(int64(logpStart))))}
	return &linkState{since: now, bulk: soon(), capacity: soon(), logp: later}
}

// long returns who does the long probe with this number, of the hosts that take part of one
// site to those of another, which may be the same. ok is false if there are no two hosts.
func (r *roster) long(number, round int64, from, to string) (m meeting, ok bool) {
	i, j := r.team(from), r.team(to)
	if i < 0 || j < 0 {
		return meeting{}, false
	}
	mine, theirs := r.teams[i].players(round), r.teams[j].players(round)
	k := int64(len(mine))
	a := mine[number%k]
	theirs = slices.DeleteFunc(slices.Clone(theirs), func(h string) bool { return h == a })
	if len(theirs) == 0 {
		return meeting{}, false
	}
	// Divided by k: all of mine have their turn before the peers move on. Added: they do not
	// all meet the same one.
	return meeting{a, theirs[(number/k+number%k)%int64(len(theirs))]}, true
}

// longs does long probes, one at a time, until ctx ends.
func (p *Prober) longs(ctx context.Context) error {
	for {
		if err := sleep(ctx, p.beat.Next(time.Now(), idlePause)); err != nil {
			return err
		}
		if p.pressed() {
			continue
		}
		l, ok := p.nextLong()
		if !ok {
			continue
		}
		glance := l.glance
		for ok {
			err := p.insistLong(ctx, l)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			p.longDone(l, err)
			l, ok = p.follows(l, err)
		}
		if glance {
			continue
		}
		// Others' turns with this host have waited meanwhile.
		if err := sleep(ctx, p.jitter(longRest)); err != nil {
			return err
		}
	}
}

// insistLong does a long probe, and asks again for a while where its peer is taken: most are taken by a train.
func (p *Prober) insistLong(ctx context.Context, l longProbe) error {
	for begun := time.Now(); ; {
		err := p.doLong(ctx, l)
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Retry >= longRetry || time.Since(begun) >= longRest || p.pressed() || !p.inTurn(l) {
			return err
		}
		if sleep(ctx, p.jitter(longRetry)) != nil {
			return err
		}
	}
}

// nextLong returns the long probe that is due, if one is.
func (p *Prober) nextLong() (longProbe, bool) {
	now := time.Now()
	round, _ := roundAt(now)
	roster, self := p.roster(), p.cfg.Self
	if l, due := p.nextGlance(now); due {
		return l, true
	}
	if p.young(now) {
		return longProbe{}, false
	}
	if l, due := p.firstSearch(now); due {
		return l, l.rate > 0
	}
	if l, due := p.nextJoint(now); due {
		return l, true
	}
	for _, t := range roster.teams {
		for _, k := range []Kind{KindBandwidth, KindCapacity, KindLogP} {
			if !p.longDue(k, t.name, now) || k != KindLogP && !ourWay(self.site(), t.name, 0, now) {
				continue
			}
			turns := turnsOf(k)
			if k == KindBandwidth && p.untold(t.name, now) {
				turns = append(turns, freshTurn)
			}
			for _, every := range turns {
				// Sites change hands at instants of their own.
				phase := time.Duration(mix(self.site()+"\x00"+t.name, uint64(k)) % uint64(every))
				m, ok := roster.long(int64((time.Duration(now.UnixNano())+phase)/every), round, self.site(), t.name)
				if k != KindCapacity && (!ok || m.from != self.Name) {
					continue
				}
				l, ok := p.longTo(k, t.name, m.to)
				if ok && k != KindLogP && !ourWay(self.site(), t.name, l.takes(), now) {
					continue
				}
				if ok && p.wanted(l, now, every != bulkEvery) {
					return l, true
				}
			}
		}
	}
	return longProbe{}, false
}

// turnsOf returns how long the turns of hosts for a kind of long probe last. Bulk probes go by two clocks: a slow one for
// what is only old, and a fast one for what is not known, which every host of a site lacks at first.
func turnsOf(k Kind) []time.Duration {
	switch k {
	case KindBandwidth:
		return []time.Duration{bulkEvery, bulkTurn}
	case KindLogP:
		return []time.Duration{logpEvery}
	}
	return []time.Duration{bulkEvery}
}

// untold reports whether nobody has told yet what one flow gets of the young link to a site.
func (p *Prober) untold(site string, now time.Time) bool {
	p.mu.Lock()
	l := p.links[site]
	fresh := l != nil && l.bulked == "" && now.Sub(l.since) < youth
	p.mu.Unlock()
	if !fresh {
		return false
	}
	like := p.candidates(in(site))
	return len(like) > 0 && !p.rec.told(like[0].Name)
}

// young reports whether a host that came lately has not been measured yet: its first train must
// not wait for a slot, which long probes hold for seconds.
func (p *Prober) young(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.peers {
		if p.around.partners[name] && s.read == 0 && now.Sub(s.since) < newcomer {
			return true
		}
	}
	return false
}

// isNew reports whether a host was met within [newcomer].
func (p *Prober) isNew(peer string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peers[peer]
	return s != nil && now.Sub(s.since) < newcomer
}

// longDue reports whether the schedule of a kind of long probe to a site has come.
func (p *Prober) longDue(k Kind, site string, now time.Time) bool {
	hosts := min(len(p.cfg.Peers())+1, chatterHosts)
	bytes := int64(chatter) * int64(hosts*hosts) / (chatterHosts * chatterHosts)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[site]
	if l == nil {
		return false
	}
	inside := site == p.cfg.Self.site()
	due := func(s schedule) bool { return !now.Before(s.notBefore) && !now.Before(l.closed) }
	young := now.Sub(l.since) < youth
	switch k {
	case KindBandwidth:
		if l.bulked == "" && young { // what trains may not spend is not this one's, and turns of a direction are short
			due = func(s schedule) bool { return !now.Before(s.notBefore) }
		}
		return !inside && l.read > 0 && due(l.bulk) && now.Sub(l.since) >= min(l.read.Time(bytes), longestChatter)
	case KindCapacity:
		if l.searchedAt.IsZero() && young { // what others may not spend is not this one's
			return !inside && l.bulked != "" && !now.Before(l.capacity.notBefore)
		}
		return !inside && l.bulked != "" && due(l.capacity)
	}
	return due(l.logp)
}

// wanted reports whether there is use for a long probe that the schedule allows, of a bulk probe also where the last
// is only old unless it has to be new. LogP can wait where it would take the bytes that are needed to know what a flow gets.
func (p *Prober) wanted(l longProbe, now time.Time, unknown bool) bool {
	if l.kind == KindLogP && l.peer.site() == p.cfg.Self.site() {
		return true
	}
	p.mu.Lock()
	s, q := p.links[l.peer.site()], p.peers[l.peer.Name]
	patient := s != nil && s.patient(now)
	p.mu.Unlock()
	w, unsearched, searches := p.rec.wants(l.peer.Name), p.rec.unsearched(l.peer.Name), p.rec.searches(l.peer.Name, patient)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s == nil || q == nil:
		return false
	case l.kind == KindCapacity:
		return searches || w == wantsCapacity || !s.searchedAt.IsZero() && now.Sub(s.searchedAt) >= capacityEvery
	case l.kind == KindLogP:
		return w == wantsNothing || now.Sub(q.since) >= logpPatience
	}
	if unsearched && now.Sub(s.since) < searchFirst {
		return false
	}
	return w == wantsBulk || !unknown && now.Sub(s.bulkedAt) >= bulkEvery
}

// longTo returns the probe of a kind to a host of site: the preferred one if it is
// connected, or else another. ok is false while trains have not measured them all, but for those that nobody could for a
// minute ([newcomer]).
func (p *Prober) longTo(k Kind, site, preferred string) (longProbe, bool) {
	if k == KindCapacity { // who has measured what one flow gets looks for more itself, to the same host
		p.mu.Lock()
		if l := p.links[site]; l != nil {
			preferred = l.bulked
		}
		p.mu.Unlock()
	}
	var best longProbe
	now := time.Now()
	for _, c := range p.candidates(in(site)) {
		if c.measured.IsZero() {
			if p.isNew(c.Name, now) {
				return longProbe{}, false
			}
			continue
		}
		if best.rate > 0 && c.Name != preferred {
			continue
		}
		e, _ := p.rec.known(c.Name)
		held := p.rec.heldBy(c.Name)
		p.mu.Lock()
		best = longProbe{kind: k, peer: c.Peer, rate: e.Bandwidth, rtt: 2 * e.Latency, held: held}
		if s := p.peers[c.Name]; s != nil && s.read > 0 {
			best.rate = s.read
		}
		p.mu.Unlock()
	}
	if k == KindCapacity && best.rate > 0 {
		best.one, best.line = p.rec.one(best.peer.Name)
	}
	return best, best.rate > 0
}
