package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// watchTrain is the length of the trains that look whether a link is as it was. The
	// shortest that says anything, 6 packets, may lose none, and is for links under slowLink,
	// where a packet takes 5 ms and more. Where a train is too short to time it grows
	// ([nextLength]): from about 20 Mbit/s on, to 100 kB at 85 Mbit/s.
	watchTrain = 8
	slowTrain  = minArrivals
	slowLink   = 250e3 // bytes a second
	// watchCost is what such a session takes of a link.
	watchCost = watchTrain*(trainPayload+packetCost) + sessionCost
	// firstCost is the same for a first measurement.
	firstCost = firstTrain*(trainPayload+packetCost) + sessionCost

	// opinions is how many trains a host sends in a row to a peer whose readings do not
	// fit: two that agree are believed.
	opinions = 3
)

// turns waits for this host's part of each round, which begins at offset, and takes the
// turn, until ctx ends.
func (p *Prober) turns(ctx context.Context, offset time.Duration, turn func(ctx context.Context, round int64)) error {
	for {
		_, into := roundAt(time.Now())
		if err := sleep(ctx, mod64(offset-into, roundTime)); err != nil {
			return err
		}
		if round, _ := roundAt(time.Now()); !p.cfg.Busy() {
			turn(ctx, round)
		}
		// A timer that fires early must not give the turn twice.
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
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
		cs := p.candidates(self.site())
		i := slices.IndexFunc(cs, func(c candidate) bool { return c.Name == partner })
		if i < 0 || now.Before(cs[i].notBefore) || cs[i].worth(now, p.cfg.Interval) < 1 && !cs[i].suspect {
			return
		}
		u := cs[i].use(again)
		if !p.affords(u) {
			return
		}
		_, _, err := p.attempt(ctx, cs[i].Peer, u, func() bool { return p.affords(urgent) })
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
	return p.budget.wait(time.Now(), u, firstCost, p.cfg.hostTerms()) == 0
}

// turnAcross measures hosts of another site if this host has the turn on the link there: the
// one that it meets, or another that is worth more. What was never measured is measured
// for as long as the round lasts; otherwise one train is enough.
func (p *Prober) turnAcross(ctx context.Context, round int64) {
	self := p.cfg.Self
	m, ok := p.roster().across(round, self.site(), self.Name)
	if !ok || m.from != self.Name {
		return
	}
	site := p.siteOf(m.to)
	waited := false
	for {
		now := time.Now()
		p.mu.Lock()
		l := p.links[site]
		shut := l == nil || now.Before(l.closed)
		p.mu.Unlock()
		if r, _ := roundAt(now); r != round && !waited || shut || p.cfg.Busy() {
			return
		}
		cs := p.candidates(site)
		p.mu.Lock()
		c, ok := choose(cs, m.to, now, p.cfg.Interval, p.rng)
		p.mu.Unlock()
		if !ok {
			return
		}
		u := c.use(watch)
		err := p.across(ctx, c.Peer, u)
		var busy *BusyError
		switch taken := errors.As(err, new(*peerBusyError)); {
		case taken && !waited:
			continue // another may be free
		case errors.As(err, &busy) && busy.Retry <= roundTime && !waited:
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
	var give func(int64, netmap.BytesPerSec)
	if err == nil {
		give, err = p.lease(ctx, peer.site(), request{use: u, cost: cost})
	}
	if err != nil {
		if ctx.Err() == nil {
			p.refused(peer.site(), err)
		}
		return err
	}
	took, rate, err := p.attempt(ctx, peer, u, func() bool { return !p.curbed() })
	give(took, rate)
	if errors.As(err, new(*BusyError)) {
		return &peerBusyError{err}
	}
	return err
}

// refused notes that the lease of the link to site was not to be had.
func (p *Prober) refused(site string, err error) {
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
		l.closed = time.Now().Add(retry)
	}
	p.tally(err)
}

// wire returns what the session took of a link.
func (res result) wire() int64 {
	if res.Trains == 0 {
		return 0
	}
	return res.Bytes + res.Bytes/trainPayload*packetCost + sessionCost
}

// attempt measures the bandwidth to peer, again at once while the readings do not fit
// and more allows, and notes how that ended. It returns the bytes that links carried for
// it and the last rate, 0 if none was read.
func (p *Prober) attempt(ctx context.Context, peer Peer, u use, more func() bool) (bytes int64, rate netmap.BytesPerSec, err error) {
	for range opinions {
		res, again, err := p.session(ctx, peer, u)
		bytes += res.wire()
		if ctx.Err() != nil {
			return bytes, rate, context.Cause(ctx)
		}
		p.settle(peer.Name, func(s *peerState) *schedule { return &s.bandwidth }, p.pause(peer), err)
		if err != nil {
			return bytes, rate, err
		}
		rate = res.Bandwidth
		if !again || !more() {
			break
		}
		u = urgent
	}
	return bytes, rate, nil
}

// pause is for how long a peer that was measured is left alone at least.
func (p *Prober) pause(peer Peer) time.Duration {
	if peer.site() == p.cfg.Self.site() {
		return p.cfg.Interval / 10
	}
	return watchGap
}

// note remembers what the last train to peer read.
func (p *Prober) note(peer Peer, res result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.peers[peer.Name]; s != nil {
		s.read, s.suspected = res.Bandwidth, time.Time{}
	}
	if l := p.links[peer.site()]; l != nil && peer.site() != p.cfg.Self.site() {
		l.read = res.Bandwidth
	}
}

// session runs trains to peer, with this host's slot held, and records the result. It
// reports whether the estimator wants another at once: this one does not fit.
func (p *Prober) session(ctx context.Context, peer Peer, u use) (res result, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTime)
	defer cancel()
	if u != urgent {
		var stop func()
		ctx, stop = p.whileIdle(ctx)
		defer stop()
	}
	// The connection comes first: a handshake must not hold the slot.
	s, err := p.cfg.Endpoint.Open(ctx, peer.Name, 0, lane.StreamProbe)
	if err != nil {
		return result{}, false, err
	}
	release, err := p.takeSlot(ctx)
	if err != nil {
		s.Abort()
		return result{}, false, err
	}
	defer release()
	ask := message{Op: opTrain, Count: p.length(peer, u), Urgent: u == urgent}
	inside := peer.site() == p.cfg.Self.site()
	// A second opinion during an exchange is one short train.
	more := func() bool { return !p.cfg.Busy() && !p.curbed() }
	res, err = initiate(ctx, s, ask, sender(ctx, p.cfg.Endpoint, s.Peer.Addr), more)
	p.charge(res.wire())
	p.mu.Lock()
	if inside {
		p.budget.spend(time.Now(), u, res.wire(), max(res.Bandwidth, netmap.BytesPerSec(p.budget.rate)), p.cfg.hostTerms())
	}
	if err == nil {
		p.stats.Sessions++
	}
	p.mu.Unlock()
	if err != nil {
		s.Abort()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return res, false, fmt.Errorf("trains: %w", err)
	}
	again = p.rec.trains(peer.Name, peer.site(), res)
	p.note(peer, res)
	p.cfg.Log.Debug("measured", "peer", peer.Name, "mbps", res.Bandwidth.Mbps(), "spread", res.Spread,
		"trains", res.Trains, "bytes", res.Bytes, "shaped", res.Shaped, "limited", res.Limited)
	return res, again, nil
}

// length returns how many packets the first train of a session has.
func (p *Prober) length(peer Peer, u use) int {
	if u == first {
		return firstTrain
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[peer.site()]; l != nil && l.read > 0 && l.read < slowLink {
		return slowTrain
	}
	return watchTrain
}

// takeSlot takes this host's slot, or returns a [BusyError] if it is not free soon: a
// long probe holds it for seconds, and a turn is over by then.
func (p *Prober) takeSlot(ctx context.Context) (release func(), err error) {
	t := time.NewTimer(insideTime)
	defer t.Stop()
	select {
	case p.slot <- struct{}{}:
		return func() { <-p.slot }, nil
	case <-t.C:
		return nil, &BusyError{Retry: slotRetry, Why: "another probe of this host"}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// whileIdle returns a context that ends with a [BusyError] as soon as an exchange begins
// here. stop must be called; it waits for the goroutine that looks.
func (p *Prober) whileIdle(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		yieldWhen(ctx, func() bool { return !p.cfg.Busy() && !p.curbed() }, cancel)
	}()
	return ctx, func() { cancel(nil); <-done }
}
