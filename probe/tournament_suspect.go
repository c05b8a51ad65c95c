package probe

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Suspect says that the estimate of this host's link to peer looks wrong: an exchange
// got far less than it. The prober sends one short train there within a second or two,
// outside the tournament and even while an exchange runs, if slots, leases and budgets
// allow: during an exchange they allow one in 10 s a link, and a few where one was lost or has
// found a change ([alarms]). It does not block.
func (p *Prober) Suspect(peer string) {
	p.mu.Lock()
	s := p.peers[peer]
	fresh := s != nil && s.suspected.IsZero()
	if fresh {
		s.suspected = time.Now()
	}
	p.mu.Unlock()
	if !fresh {
		return
	}
	p.rouse()
}

// rouse has [Prober.second] look for suspects now. It does not block.
func (p *Prober) rouse() {
	select {
	case p.doubts <- struct{}{}:
	default:
	}
}

// doubtTime is for how long a suspect is one: if nothing could be sent until then, the
// tournament will have to do.
const doubtTime = 30 * time.Second

// second measures suspects until ctx ends.
func (p *Prober) second(ctx context.Context) error {
	rest := time.Hour
	var heard time.Time
	for {
		pause := p.beat.Next(time.Now(), shiftEvery)
		if p.cfg.Busy() || p.crossing.wanted(time.Now()) { // what others find of a link counts at once
			pause = newsEvery
		}
		t := time.NewTimer(min(rest, pause))
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-p.doubts:
			t.Stop()
		case <-t.C:
		}
		now := time.Now()
		p.news(now)
		listen := now.Sub(heard) >= shiftEvery*7/8 // beats differ by what timers are late
		if listen {
			heard = now
		}
		p.catchUp(now, listen)
		for {
			var peer Peer
			var ok bool
			if peer, rest, ok = p.nextSuspect(); !ok {
				break
			}
			err := p.opinion(ctx, peer)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			p.judged(peer, err)
		}
	}
}

// catchUp suspects one peer of each site to which the link has changed since this host's last train to the peer;
// with listen it looks first what the other hosts of this site say of it. During an exchange these
// readings wait, but for what [Prober.news] finds.
func (p *Prober) catchUp(now time.Time, listen bool) {
	if p.cfg.Known == nil || p.cfg.Busy() {
		return
	}
	round, _ := roundAt(now)
	r, self := p.roster(), p.cfg.Self
	own := r.team(self.site())
	if own < 0 {
		return
	}
	mine := r.teams[own].players(round)
	place := max(slices.Index(mine, self.Name), 0)
	mates := slices.DeleteFunc(slices.Clone(mine), func(h string) bool { return h == self.Name })
	sites := make(map[string][]string)
	for _, q := range p.look() {
		if q.site() != self.site() {
			sites[q.site()] = append(sites[q.site()], q.Name)
		}
	}
	names := slices.Sorted(maps.Keys(sites))
	for _, site := range names {
		peers := slices.Sorted(slices.Values(sites[site]))
		if listen {
			p.rec.listen(mates, site, peers, now)
		}
		if peer := p.rec.behind(site, peers, len(mine)*len(peers), place, now); peer != "" {
			p.Suspect(peer)
		}
	}
	if listen {
		p.rec.forgetShifts(names, now)
	}
}

// nextSuspect returns the peer that has been suspected longest and may be measured, or
// how long to rest.
func (p *Prober) nextSuspect() (peer Peer, rest time.Duration, ok bool) {
	now := time.Now()
	rest = time.Hour
	p.mu.Lock()
	defer p.mu.Unlock()
	var since time.Time
	for _, q := range p.around.peers {
		s := p.peers[q.Name]
		if s == nil || s.suspected.IsZero() {
			continue
		}
		if now.Sub(s.suspected) > doubtTime {
			s.suspected = time.Time{}
			continue
		}
		until := s.bandwidth.notBefore
		if l := p.links[q.site()]; l != nil && q.site() != p.cfg.Self.site() && l.barred.After(until) {
			until = l.barred
		}
		if d := until.Sub(now); d > 0 {
			rest = min(rest, d)
		} else if !ok || s.suspected.Before(since) {
			peer, since, ok = q, s.suspected, true
		}
	}
	return peer, rest, ok
}

// opinion measures a suspect. Where it returns an error, [Prober.settle] or [Prober.refused] has said when to try again.
func (p *Prober) opinion(ctx context.Context, peer Peer) error {
	if peer.site() == p.cfg.Self.site() {
		if !p.affords(urgent) {
			err := &BusyError{Retry: time.Second, Why: "budget of the host"}
			p.settle(peer.Name, func(s *peerState) *schedule { return &s.bandwidth }, 0, err) // or it would be the next suspect at once
			return err
		}
		_, _, err := p.attempt(ctx, peer, urgent, func() bool { return p.affords(urgent) })
		return err
	}
	return p.across(ctx, peer, urgent)
}

// judged clears the suspicion of those that the train to peer has told about: all of the
// same link, since the estimator corrects them together.
func (p *Prober) judged(peer Peer, err error) {
	if err != nil {
		return // settle and refused have said when to try again
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.around.peers {
		if s := p.peers[q.Name]; s != nil && q.site() == peer.site() && (q.Name == peer.Name || q.site() != p.cfg.Self.site()) {
			s.suspected = time.Time{}
		}
	}
}

// alarm reports whether a second opinion of peer is let in during an exchange here: one
// of its site in a second, and few in 10 s. The keeper of its site is stricter; this is for those
// whose keeper is not.
func (p *Prober) alarm(peer string) bool {
	site := p.siteOf(peer)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.alarmed[site]
	if site == "" || a.wait(now) > 0 {
		return false
	}
	a.grant(now)
	a.next = now.Add(time.Second)
	p.alarmed[site] = a
	return true
}
