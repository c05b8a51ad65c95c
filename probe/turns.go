package probe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// watchTrain is the length of the trains that look whether a link is as it was. The
	// shortest that says anything, 6 packets, may lose none, and is for links under slowLink,
	// where a packet takes 5 ms and more. Where that is too short to time, from about 20 Mbit/s on, they grow
	// ([nextLength]), and begin next time with what was enough, 100 kB at 85 Mbit/s.
	watchTrain = 8
	slowTrain  = minArrivals
	slowLink   = 250e3 // bytes a second
	// watchCost is what such a session takes of a link.
	watchCost = watchTrain*(trainPayload+packetCost) + sessionCost
	// firstCost is the same for a first measurement.
	firstCost = firstTrain*(trainPayload+packetCost) + sessionCost

	// spareAfter is for how long a host of another site waits for the tournament before it is measured for the
	// first time outside it.
	spareAfter = 15 * time.Second

	// spareRest is for how long at most a host that declines is left alone outside the tournament.
	spareRest = time.Minute

	// opinions is how many trains a host sends in a row to a peer whose readings do not
	// fit: two that agree are believed.
	opinions = 3
)

// turns waits for this host's part of each round, which begins at offset, and takes the
// turn, until ctx ends. Beside operations of this host it does not: also small ones wait for what trains take of ports and processors.
func (p *Prober) turns(ctx context.Context, offset time.Duration, turn func(ctx context.Context, round int64)) error {
	const early = time.Millisecond // a timer that fires so early must not give the turn twice
	for least := time.Duration(0); ; least = early {
		_, into := roundAt(time.Now())
		wait := mod64(offset-into, roundTime)
		if wait <= least {
			wait += roundTime
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		if round, _ := roundAt(time.Now()); !p.pressed() {
			turn(ctx, round)
		}
	}
}

// mod64 returns a modulo n, more than 0 and at most n.
func mod64(a, n time.Duration) time.Duration {
	if r := a % n; r > 0 {
		return r
	} else {
		return r + n
	}
}

// turnInside measures whom this host meets inside its site, if that is due. Of the two the
// one with the lower name begins; the other's half comes after.
func (p *Prober) turnInside(ctx context.Context, round int64) {
	self := p.cfg.Self
	partner := p.roster().inside(round, self.site(), self.Name)
	if partner == "" {
		return
	}
	if self.Name > partner && sleep(ctx, insideTime/2) != nil {
		return
	}
	for {
		now := time.Now()
		cs := p.candidates(func(q Peer) bool { return q.Name == partner })
		if len(cs) == 0 || now.Before(cs[0].notBefore) || cs[0].worth(now, p.cfg.Interval) < 1 && !cs[0].suspect && !p.rec.odd(partner) {
			return
		}
		u := cs[0].use(again)
		if !p.affords(u) {
			return
		}
		_, _, err := p.attempt(ctx, cs[0].Peer, u, func() bool { return p.affords(urgent) })
		// What began before this round may still be under way: try until the turn is over,
		// or the round if nothing is known of the pair, which would wait for the next cycle.
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Retry > insideTime || sleep(ctx, 2*slotRetry+time.Millisecond) != nil {
			return
		}
		if r, into := roundAt(time.Now()); r != round || u != first && into > insideTime {
			return
		}
	}
}

// affords reports whether this host may spend a short train inside its site.
func (p *Prober) affords(u use) bool {
	if p.capped(firstCost) != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.wait(time.Now(), u, firstCost, p.hostTerms()) == 0
}

// turnAcross measures hosts of another site if this host has the turn on the link there: the
// one that it meets, or another that is worth more. What was never measured is measured
// for as long as the round lasts; otherwise one train is enough.
func (p *Prober) turnAcross(ctx context.Context, round int64) {
	self := p.cfg.Self
	m, ok := p.roster().across(round, self.site(), self.Name)
	if ok && m.from != self.Name {
		return
	}
	defer p.turnSpare(ctx, round)
	if !ok {
		return
	}
	site := p.siteOf(m.to)
	waited := false
	asked := make(map[string]bool) // suspects that were taken: what they say of when to try again, choose does not heed
	for {
		now := time.Now()
		p.mu.Lock()
		l := p.links[site]
		var watching, starting bool // whether a lease may be had to watch the link, and for a first measurement
		if l != nil {
			watching, starting = !now.Before(l.closed), !now.Before(l.filled)
		}
		p.mu.Unlock()
		if r, _ := roundAt(now); r != round && !waited || !watching && !starting || p.cfg.Busy() {
			return
		}
		cs := p.candidates(func(q Peer) bool { return q.site() == site && !asked[q.Name] })
		cs = slices.DeleteFunc(cs, func(c candidate) bool {
			if c.use(watch) == first {
				return !starting
			}
			return !watching
		})
		p.mu.Lock()
		c, ok := choose(cs, m.to, now, p.cfg.Interval, p.rng)
		p.mu.Unlock()
		if !ok {
			return
		}
		u := c.use(watch)
		err := p.across(ctx, c.Peer, u)
		var busy *BusyError
		r, _ := roundAt(time.Now())
		switch taken := errors.As(err, new(*peerBusyError)); {
		case taken && !waited: // another may be free
			if c.suspect {
				asked[c.Name] = true
			}
		case errors.As(err, &busy) && busy.Retry <= roundTime && !waited && r == round:
			// The budget is all but there: on a link that has no turn in each round it would
			// otherwise wait for seconds.
			waited = true
			if sleep(ctx, busy.Retry) != nil {
				return
			}
		case err != nil || u == watch || waited:
			return
		}
	}
}

// turnSpare measures hosts that were never measured in the part of a round in which this host has no turn, or has done with it:
// in the tournament they would wait for as many rounds as a site has hosts, and a young grid is
// planned with. Slots and leases keep order, and a host whose slot is taken is passed over.
func (p *Prober) turnSpare(ctx context.Context, round int64) {
	for {
		now := time.Now()
		if r, into := roundAt(now); r != round || into > roundTime-insideTime/2 || p.cfg.Busy() {
			return
		}
		peer, ok := p.stranger(now)
		if !ok {
			return
		}
		var err error
		if peer.site() != p.cfg.Self.site() {
			err = p.across(ctx, peer, first)
		} else {
			_, _, err = p.attempt(ctx, peer, first, func() bool { return p.affords(urgent) })
		}
		p.declined(peer, err)
		if err != nil && sleep(ctx, slotRetry) != nil {
			return
		}
	}
}

// declined notes that a stranger refused for more than another probe's time, be it that it exchanges data: ever more seldom it is
// asked again, but by the tournament.
func (p *Prober) declined(peer Peer, err error) {
	var busy *BusyError
	if peer.site() != p.cfg.Self.site() && !errors.As(err, new(*peerBusyError)) || !errors.As(err, &busy) || busy.Retry < busyRetry {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.peers[peer.Name]; s != nil {
		s.spare.failures++
		s.spare.notBefore = time.Now().Add(min(busyRetry<<min(s.spare.failures, 16), spareRest))
	}
}

// stranger returns a connected host that was never measured and may be now, of this site, or of another that
// the tournament has left over for spareAfter: earlier hosts would crowd at the smallest site.
func (p *Prober) stranger(now time.Time) (peer Peer, ok bool) {
	own := p.cfg.Self.site()
	sites := []string{own}
	unread := make(map[string]bool) // by this life
	p.mu.Lock()
	for _, q := range p.around.peers {
		l, s := p.links[q.site()], p.peers[q.Name]
		if s != nil && s.read == 0 && p.around.partners[q.Name] && !now.Before(s.spare.notBefore) {
			unread[q.Name] = true
		}
		if l == nil || s == nil || now.Before(l.filled) || now.Sub(s.since) < spareAfter {
			continue
		}
		if !slices.Contains(sites, q.site()) {
			sites = append(sites, q.site())
		}
	}
	p.mu.Unlock()
	if len(unread) == 0 {
		return Peer{}, false
	}
	for _, site := range sites {
		cs := slices.DeleteFunc(p.candidates(func(q Peer) bool { return q.site() == site && unread[q.Name] }), func(c candidate) bool { return !c.measured.IsZero() || now.Before(c.notBefore) })
		if len(cs) > 0 && (site != own || p.affords(first)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return cs[p.rng.IntN(len(cs))].Peer, true
		}
	}
	return Peer{}, false
}

// siteOf returns the site of a member.
func (p *Prober) siteOf(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.around.peers {
		if q.Name == name {
			return q.site()
		}
	}
	return ""
}

// A peerBusyError says that the peer, and not the link, was taken.
type peerBusyError struct{ err error }

func (e *peerBusyError) Error() string { return e.err.Error() }
func (e *peerBusyError) Unwrap() error { return e.err }

// across measures peer, of another site, under a lease of the link.
func (p *Prober) across(ctx context.Context, peer Peer, u use) error {
	length := p.length(peer, u)
	cost := int64(length*(trainPayload+packetCost) + sessionCost)
	err := p.capped(cost)
	if err == nil {
		err = p.paced(peer.site(), u, cost)
	}
	var give func(int64, netmap.BytesPerSec)
	if err == nil {
		// While a long probe holds this host's slot the link is for others.
		free, taken := p.takeSlot(ctx)
		if taken != nil && ctx.Err() != nil {
			return taken
		} else if taken != nil {
			p.settle(peer.Name, func(s *peerState) *schedule { return &s.bandwidth }, p.pause(peer), taken)
			return &peerBusyError{taken}
		}
		free()
		give, err = p.lease(ctx, peer.site(), request{use: u, cost: cost})
	}
	if err != nil {
		if ctx.Err() == nil {
			p.refused(peer.site(), u, err)
		}
		return err
	}
	took, rate, err := p.attempt(ctx, peer, u, func() bool { return !p.curbed() })
	give(took, rate)
	left := p.left()
	p.mu.Lock()
	p.abroad.spend(time.Now(), took, left)
	p.mu.Unlock()
	if errors.As(err, new(*BusyError)) {
		return &peerBusyError{err}
	}
	return err
}

// refused notes that the lease of the link to site was not to be had for u. What one use lacks another may
// have: a link that may not be watched again soon may still get second opinions.
func (p *Prober) refused(site string, u use, err error) {
	retry := 10 * time.Second
	var busy *BusyError
	if errors.As(err, &busy) {
		retry = min(busy.Retry, time.Minute)
	} else {
		p.cfg.Log.Debug("no lease", "site", site, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[site]; l != nil {
		switch until := time.Now().Add(retry); u {
		case urgent:
			l.barred = until
		case first:
			l.filled = until
		default:
			l.closed = until
		}
	}
	p.tally(err)
}
