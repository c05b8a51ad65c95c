package probe

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// trains takes the result of one session. It reports whether another reading of the pair is
// wanted at once: this one does not fit what is known. One that shows a change is enough where something else
// shows it, too: another pair of the two sites, or lanes that have just fallen.
func (r *recorder) trains(peer, site string, res result) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, p := time.Now(), r.seeded(peer)
	p.loss.add(float64(res.sent), float64(res.lost))
	rate := float64(res.Bandwidth)
	before, _ := p.out.line.value()
	other := before > 0 && apart(rate, before) > otherRate
	if r.outdated(peer, site, now) && !other {
		delete(r.shifts, site) // this pair could show the change, and does not: it was of somebody's port
	}
	witnessed := other && (r.confirms(site, rate, now) || rate < before && r.witnessed(site, rate, now))
	changed := p.out.train(rate, res.Spread) || witnessed && p.out.train(rate, res.Spread)
	line, _ := p.out.line.value()
	if changed || before > 0 && apart(line, before) > otherRate {
		p.lower(before, rate, now)
		p.out.linkChanged()
		if !r.confirms(site, rate, now) {
			r.shifted(site, rate, now)
		}
	}
	p.trained = now
	like := r.like(peer)
	if before > 0 && apart(rate, line) > otherRate {
		return true // it is not believed yet, so it makes nothing younger that is
	}
	if p.unread != nil {
		r.flowed(p, *p.unread, like.losses)
		p.unread, like = nil, r.like(peer)
	}
	r.publish(peer, p, like, netmap.SourceProbed)
	r.readWith(peer, site, rate)
	return p.out.line.doubtful(like.line)
}

// readWith has bulk probes count that wait for a train of their own pair, now that one to peer, of the same site, has read rate. If that is the
// link that they know it has not changed, and something holds flows on it. Their own train was wanted at once, but for want of budget or of a lease it may
// come minutes later, and until then nobody knows of the flow, and nobody searches for what several get. The caller holds the lock.
func (r *recorder) readWith(peer, site string, rate float64) {
	if site == "" || site == r.cfg.Self.site() {
		return
	}
	for _, q := range r.cfg.Peers() {
		p := r.pairs[q.Name]
		if q.Name == peer || q.site() != site || p == nil || p.unread == nil {
			continue
		}
		if line, _ := p.out.line.value(); line > 0 && apart(rate, line) <= otherRate {
			r.flowed(p, *p.unread, r.like(q.Name).losses)
			p.unread = nil
			r.publish(q.Name, p, r.like(q.Name), netmap.SourceProbed)
		}
	}
}

// bulk takes the result of a bulk probe, finished or not. One that contradicts what was believed waits for
// a train, which is then wanted at once (again): it says whether the link has changed, or something holds flows on it.
func (r *recorder) bulk(peer string, res bulkResult) (again bool) {
	if res.Rate <= 0 && res.Lanes == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, like := r.seeded(peer), r.like(peer)
	if res.Limited { // else Spread says itself how much was seen
		res.Spread = max(res.Spread, unsure)
	}
	p.unread = nil
	expected, spread := p.out.flow(like.siteFlow)
	if expected > 0 && res.Rate > 0 && unequal(float64(res.Rate), res.Spread, expected, spread) {
		p.unread = &res
		return true
	}
	r.flowed(p, res, like.losses)
	r.publish(peer, p, r.like(peer), netmap.SourceProbed) // with the losses that it has met
	return false
}

// flowed adds the result of a bulk probe to what is believed. The caller holds the lock.
func (r *recorder) flowed(p *pair, res bulkResult, all lossHeld) {
	if res.Lost == 0 && p.out.contradicts(float64(res.Rate), all) {
		res.Spread = max(res.Spread, unsure)
	}
	if res.Rate > 0 { // else several lanes filled the link, and nothing is known of one
		p.out.flowed(float64(res.Rate), res.Spread)
	}
	if res.Lanes > 0 { // else the search was cut short
		p.out.several(float64(res.Capacity), res.Lanes)
	}
	own := lossCount{res.Steady + res.Lost, res.Lost}
	p.loss.add(own.sent, own.lost)
	if res.Rate > 0 && p.last.Has(netmap.FieldLatency) {
		p.out.lost(float64(res.Rate), lossHeldOf(own, 2*p.last.Latency))
	}
}

// unsure is the least spread of a bulk probe that this host slowed down.
const unsure = 0.30

// observed takes what an exchange's lane to peer got while the network was the limit. It is
// exact if the lane was alone on its way between the sites, and else a lower bound: one that may hold what came before the link
// to the peer's site fell is none.
func (r *recorder) observed(peer, site string, rate netmap.BytesPerSec, exact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.floors[site]; ok && !exact && time.Since(f.at) <= newsAge {
		return
	}
	p := r.seeded(peer)
	like := r.like(peer)
	if exact {
		p.out.flowed(float64(rate), loneSpread)
	} else if !p.out.atLeast(float64(rate), like.siteFlow) {
		return
	}
	r.publish(peer, p, like, netmap.SourceObserved)
}

const (
	// tollMore is how many times as many packets must have been counted since losses were told, or tollApart how far the share must have moved since, for exchanges to
	// tell of them again.
	tollMore  = 2
	tollApart = 0.25
	// tollEnough is how many packets are told of at least. They say something with those that other hosts of the site have sent in the same exchange.
	tollEnough = 100
	// tollAge is how long packets wait for more of their kind.
	tollAge = 10 * time.Minute
)

// A toll is what exchanges have counted of losses on the way to a site, too few packets as yet to say something.
type toll struct {
	lossCount
	at time.Time // when the last of them came
}

// met takes what was counted of losses on the way to peer without a probe. What a site's pairs meet is of one link, and a short exchange has few packets for each: they
// are gathered until they are enough to say something, and then count for the pair at hand. The others hear of it if it is news.
func (r *recorder) met(peer, site string, n lossCount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = n.plus(r.tolls[site].lossCount); n.sent < tollEnough {
		r.tolls[site] = toll{n, time.Now()}
		return
	}
	delete(r.tolls, site)
	p := r.seeded(peer)
	p.loss.add(n.sent, n.lost)
	e, loss, of := r.own(peer), p.loss.count().share(), int(min(p.loss.count().sent, netmap.MaxLossOf))
	if !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) ||
		e.Has(netmap.FieldLoss) && of < tollMore*e.LossOf && (loss == e.Loss || apart(loss, e.Loss) < tollApart) {
		return
	}
	e.Known |= netmap.FieldLoss
	e.Loss, e.LossOf = loss, of
	p.last = e
	r.cfg.Record(r.cfg.Self.Name, peer, e)
}

// flowBelief's view of what to measure next of the pair.
func (r *recorder) wants(peer string) wants {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seeded(peer).out.wants(r.like(peer).siteFlow)
}

// heldBy returns what the losses that were seen of the link to peer should leave of a flow, 0 if nobody knows.
func (r *recorder) heldBy(peer string) netmap.BytesPerSec {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seeded(peer)
	return netmap.BytesPerSec(r.like(peer).losses.rate)
}

// second reports whether the one bulk probe to peer found a part of the link that a second opinion is wanted on.
func (r *recorder) second(peer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seeded(peer).out.second()
}

// searches reports whether this host is to search for what several lanes get to peer: its own bulk probe has read one, and nobody more. A second
// opinion on that bulk probe need not come first, but where strangers seem to be on the link: for as long as this host is patient the
// bytes are for those that tell what is left of it for one.
func (r *recorder) searches(peer string, patient bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, like := &r.seeded(peer).out, r.like(peer)
	if patient && b.shared(like.siteFlow) {
		return false
	}
	return b.part.readings() > 0 && b.lanes == 0 && like.lanes == 0
}

// unsearched reports whether another host's bulk probe has read what one flow gets of the link to peer, and nobody what several get: that
// host searches next, and a bulk probe of this one would be in its way.
func (r *recorder) unsearched(peer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seeded(peer).out.bulk.readings() > 0 {
		return false
	}
	_, claims, _ := r.claims(r.cfg.Self.Name, peer)
	bulked := false
	for _, c := range claims {
		if c.e.Has(netmap.FieldLanes) {
			return false
		}
		bulked = bulked || c.from != r.cfg.Self.Name && c.e.Has(netmap.FieldLine)
	}
	return bulked
}

// told reports whether a bulk probe over the link to peer, of this host or another one, has said what one flow gets.
func (r *recorder) told(peer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seeded(peer).out.bulk.readings() > 0 {
		return true
	}
	_, claims, _ := r.claims(r.cfg.Self.Name, peer)
	for _, c := range claims {
		if c.e.Has(netmap.FieldLine) {
			return true
		}
	}
	return false
}

// one returns what a search for the knee need not measure again of the link to peer: a flow that gets but a part of it, and what trains read of the
// link, or more of them were seen to bring. Rate is 0 where nobody has measured that.
func (r *recorder) one(peer string) (one lanePoint, line float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.seeded(peer)
	like := r.like(peer).siteFlow
	if p.out.partOf(like) == 0 || p.out.shared(like) { // a second reading of one lane is worth its bytes
		return one, 0
	}
	rate, spread := p.out.flow(like)
	line, _ = p.out.line.value()
	return lanePoint{Lanes: 1, Rate: rate, Spread: spread, Enough: true}, max(line, r.carriedTo(peer))
}

// carriedTo returns what the link to peer was seen to carry, bytes a second; 0 if nobody has told. The caller holds the lock.
func (r *recorder) carriedTo(peer string) (most float64) {
	for _, c := range r.claimsTo(peer) {
		if c.e.Has(netmap.FieldCarried) {
			most = max(most, float64(c.e.Carried))
		}
	}
	return most
}

// claimsTo is [recorder.claims] of the way from here to peer with that pair itself. The caller holds the lock.
func (r *recorder) claimsTo(peer string) []claim {
	_, claims, _ := r.claims(r.cfg.Self.Name, peer)
	own, _ := r.current(peer)
	return append(claims, claim{r.cfg.Self.Name, own, peer})
}
