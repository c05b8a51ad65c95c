package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A glance says soon and roughly what several flows get of a young link. Trains read what the network lets one flow have, and until a
// bulk probe and a search have had their turns, which takes most of a minute, plans would take that for all that a link carries: on a
// grid that holds each flow to a quarter of its links an alltoall took three times as long. So once trains have read a link one pair of hosts
// sends over a few lanes for some round trips, and over more as long as each gets as much as one. What arrived the link carries at
// least: the receiver puts it into the map as what exchanges bring ([carrying]), until somebody has searched.
//
// A link is looked at once; the keeper sees to that. Where a flow is not held the glance ends after two lanes, and has told nothing.
//
// None of the papers has it: it is the doubling of a search for the knee (kneeSearch) without its certainty. What was measured: docs/design/measuring.md.

const (
	// glanceMore is how many times as many lanes each look takes, and glanceLanes how many the last one takes at most.
	glanceMore  = 4
	glanceLanes = 16
	// glanceHeld is how many times what trains read lanes must get for the network to hold each, and glanceShare of what trains read
	// each must get for more lanes to be worth a look.
	glanceHeld  = 1.3
	glanceShare = 0.75
	// glanceTrips is how many round trips of lanes under way are read, and glanceLeast for how long at least.
	glanceTrips = 4
	glanceLeast = 100 * time.Millisecond
	// glanceTime is how long one may take.
	glanceTime = 6 * time.Second
	// glanceHope is within which time of the start of a link there should have been one: in a lab of 20 agents on two processors it took 14 s.
	glanceHope = 15 * time.Second
	// glanceTurn is how long the turn of one direction between two sites lasts.
	glanceTurn = 2 * time.Second
)

// nextGlance returns the glance that is due at this host, if one is. Whoever has read a link and asks its keeper first does it.
func (p *Prober) nextGlance(now time.Time) (longProbe, bool) {
	if p.cfg.Self.Site == "" { // nobody knows with whom it shares a link, and each pair would be one
		return longProbe{}, false
	}
	self := p.cfg.Self.site()
	forth := now.UnixNano()/int64(glanceTurn)%2 == 0 // one in each direction at a time would make the answers of both wait
	for _, t := range p.roster().teams {
		if t.name == self || forth != (self < t.name) {
			continue
		}
		if l, ok := p.glanceTo(t.name, now); ok && !p.rec.several(l.peer.Name) {
			return l, true
		}
	}
	return longProbe{}, false
}

// glanceTo returns the glance at the link to a site if that is young, trains have read it, and this host knows of none.
func (p *Prober) glanceTo(site string, now time.Time) (l longProbe, ok bool) {
	peers := p.look()
	p.mu.Lock()
	s := p.links[site]
	if s == nil || s.read == 0 || now.Sub(s.since) >= searchFirst || !s.searchedAt.IsZero() || now.Before(s.glance.notBefore) {
		p.mu.Unlock()
		return l, false
	}
	p.rng.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	for _, q := range peers {
		if t := p.peers[q.Name]; q.Site != "" && q.site() == site && t != nil && t.read > 0 {
			l, ok = longProbe{kind: KindCapacity, peer: q, rate: t.read, glance: true}, true
			break
		}
	}
	p.mu.Unlock()
	if !ok {
		return l, false
	}
	e, _ := p.rec.known(l.peer.Name)
	l.rtt = 2 * e.Latency
	return l, l.rtt > 0
}

// Glancing reports whether a link of this host's site is so young that what several flows get of it may just be about to be known.
func (p *Prober) Glancing(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for site, l := range p.links {
		if p.cfg.Self.Site != "" && site != p.cfg.Self.site() && now.Sub(l.since) < glanceHope {
			return true
		}
	}
	return false
}

// several reports whether somebody has told what several flows get of the link to peer.
func (r *recorder) several(peer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.claimsTo(peer), func(c claim) bool {
		return c.e.Known&(netmap.FieldLanes|netmap.FieldCarried) != 0
	})
}

// glance looks at a link under a lease.
func (p *Prober) glance(ctx context.Context, l longProbe) error {
	cost := l.cost()
	if err := p.capped(cost + max(p.cfg.HourlyCap/4, 0)); err != nil {
		return err
	}
	give, err := p.lease(ctx, l.peer.site(), request{use: glancing, cost: cost})
	if err != nil {
		return err
	}
	var bytes int64
	defer func() { give(bytes, 0) }()
	ctx, release, err := p.takeIdle(ctx)
	if err != nil {
		return err
	}
	defer release()
	res, err := p.bulk(ctx, l.peer, bulkOptions{
		glance: true, lanes: glanceLanes, link: float64(l.rate), rtt: l.rtt, bytes: min(p.most(l, searching, cost), p.left()), time: glanceTime,
		more: func() bool { return !p.pressed() },
	})
	bytes, _, err = p.spent(l, Answer{Bytes: res.Bytes, Capacity: res.Capacity}, res.Bytes/trainPayload, err)
	return err
}

// glanced says when this host may look at a link again: if it has not, and nobody else.
func (p *Prober) glanced(l longProbe, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally(err)
	if s := p.links[l.peer.site()]; s != nil {
		p.reschedule(&s.glance, searchFirst, err)
	}
}

// look sends over a few lanes, and over more as long as each gets as much as what trains have read.
func (r *bulkRun) look(ctx context.Context, s control, start time.Time, res *bulkResult) error {
	link := r.o.link
	curve := []lanePoint{{Lanes: 1, Rate: link}}
	var ss []sample
	for k := 2; ; k = min(glanceMore*k, r.o.lanes) {
		r.o.progress(fmt.Sprintf("%d lanes", k), r.written.Load())
		if err := r.lanes(ctx, k); err != nil && res.Capacity > 0 && ctx.Err() == nil {
			return nil // those that there are fill the link
		} else if err != nil {
			return err
		}
		rate, err := r.glimpse(s, start, curve, k, &ss, res)
		if err != nil {
			return err
		}
		curve = append(curve, lanePoint{Lanes: k, Rate: rate})
		res.Capacity = max(res.Capacity, netmap.BytesPerSec(rate))
		if k == r.o.lanes || rate < max(glanceHeld, glanceShare*float64(k))*link {
			return nil
		}
	}
}

// glimpse returns what k lanes get once they are under way, bytes a second, or what was seen when a cap ended it.
func (r *bulkRun) glimpse(s control, start time.Time, curve []lanePoint, k int, ss *[]sample, res *bulkResult) (float64, error) {
	var begin, end time.Duration
	for {
		m, err := readMessage(s, opProgress)
		if err != nil {
			return 0, err
		}
		now := time.Since(start)
		if err := r.plausible(m, time.Since(r.asked), *ss); err != nil {
			return 0, err
		}
		r.state(res)
		at := time.Duration(m.SpanNS)
		*ss = append(*ss, sample{at: at, bytes: m.Bytes})
		if m.Count == k && end == 0 {
			rtt := min(res.RTT, r.o.rtt)
			begin = at + settling(curve, k, rtt)
			end = begin + glanceSpan(rtt)
		}
		if late := now > r.o.time || r.written.Load() > r.o.bytes; late && (end == 0 || at <= begin) {
			return 0, errBulkLate
		} else if late || end > 0 && at >= end {
			c := cursor{ss: *ss}
			before := c.bytes(begin)
			return (float64(m.Bytes) - before) / (at - begin).Seconds(), nil
		}
	}
}

// glanceSpan is for how long lanes under way are read.
func glanceSpan(rtt time.Duration) time.Duration { return max(glanceTrips*rtt, glanceLeast) }
