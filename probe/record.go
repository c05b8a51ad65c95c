package probe

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A recorder turns samples into estimates and hands them on.
type recorder struct {
	cfg *Config

	mu    sync.Mutex // guards all below, and keeps read-change-write of the map in order
	pairs map[string]*pair
	fell  map[string]time.Time // by site: when what this host's lanes to it get fell last
	heard map[string]finding   // by site: of a fall that another host has found
}

// pair is what was seen of self→peer, and of peer→self.
type pair struct {
	rtt      rttFilter
	out      flowBelief
	loss     lossFilter
	in       rateFilter      // what trains from the peer read here
	disputed time.Time       // since when the peer claims more than that; zero if it does not
	wrong    time.Time       // when it did last
	objects  bool            // so this host reports its side
	last     netmap.Estimate // as recorded here
	used     time.Time       // when a lane of an exchange was last seen that the network limits
}

func (r *recorder) pair(name string) *pair {
	p := r.pairs[name]
	if p == nil {
		p = &pair{}
		r.pairs[name] = p
	}
	return p
}

// forget drops the peers that keep does not hold.
func (r *recorder) forget(keep map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.pairs {
		if !keep[name] {
			delete(r.pairs, name)
		}
	}
	now := time.Now()
	maps.DeleteFunc(r.fell, func(_ string, at time.Time) bool { return now.Sub(at) > newsAge })
	maps.DeleteFunc(r.heard, func(_ string, f finding) bool { return now.Sub(f.at) > newsAge })
}

// known returns what the map holds of self→peer, or what was recorded here.
func (r *recorder) known(peer string) (netmap.Estimate, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current(peer)
}

// current is known for callers that hold the lock.
func (r *recorder) current(peer string) (netmap.Estimate, bool) {
	if r.cfg.Known != nil {
		if e, ok := r.cfg.Known(r.cfg.Self.Name, peer); ok {
			return e, true
		}
	}
	if p := r.pairs[peer]; p != nil && p.last.Known != 0 {
		return p.last, true
	}
	return netmap.Estimate{}, false
}

// own returns what this host last recorded of self→peer, or what the map has of its earlier
// life. The caller holds the lock.
func (r *recorder) own(peer string) netmap.Estimate {
	if p := r.pairs[peer]; p != nil && p.last.Known != 0 {
		return p.last
	}
	e, _ := r.current(peer)
	return e
}

// passive takes a round trip that the connection's own packets saw, and reports
// whether it agrees with what pings found.
func (r *recorder) passive(peer string, d, least time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	fits := p.rtt.passive(d)
	if fits {
		r.roundTrip(peer, p, least)
	}
	return fits
}

// active takes the least round trip of a round of pings.
func (r *recorder) active(peer string, d, least time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	p.rtt.active(d)
	r.roundTrip(peer, p, least)
}

// roundTrip records the latency of p if it is news: rows of the map travel to all
// agents. least is the least round trip of the connection's life, 0 if unknown. The
// caller holds the lock.
func (r *recorder) roundTrip(peer string, p *pair, least time.Duration) {
	rtt, ok := p.rtt.value(least)
	if !ok {
		return
	}
	e := r.own(peer)
	latency, now := rtt/2, time.Now()
	if e.Has(netmap.FieldLatency) && now.Sub(e.Measured) < r.cfg.Interval {
		if diff := (latency - e.Latency).Abs(); diff < 100*time.Microsecond || diff < latency/50 {
			return
		}
	}
	e.Known |= netmap.FieldLatency | netmap.FieldVariation
	e.Latency, e.Variation = latency, p.rtt.variation
	if !e.Has(netmap.FieldBandwidth) {
		e.Measured = now // the age of an estimate is that of its bandwidth, where it has one
	}
	p.last = e
	r.cfg.Record(r.cfg.Self.Name, peer, e)
}

// trains takes the result of one session. It reports whether another reading of the pair is
// wanted at once: this one does not fit what is known. Where lanes to the peer's site have just
// fallen, one that shows a fall is enough: it is the second witness.
func (r *recorder) trains(peer, site string, res result) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.seeded(peer)
	p.loss.add(float64(res.sent), float64(res.lost))
	rate := float64(res.Bandwidth)
	before, _ := p.out.line.value()
	witnessed := rate < before && apart(rate, before) > otherRate && r.witnessed(site, rate, time.Now())
	if p.out.train(rate, res.Spread) || witnessed && p.out.train(rate, res.Spread) {
		p.out.linkChanged()
	}
	like := r.like(peer)
	if now, _ := p.out.line.value(); before > 0 && apart(rate, now) > otherRate {
		return true // it is not believed yet, so it makes nothing younger that is
	}
	r.publish(peer, p, like, netmap.SourceProbed)
	return p.out.line.doubtful(like.line)
}

// bulk takes the result of a bulk probe, finished or not.
func (r *recorder) bulk(peer string, res bulkResult) {
	if res.Rate <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.seeded(peer)
	spread := res.Spread
	if res.Limited { // else Spread says itself how much was seen
		spread = max(spread, unsure)
	}
	p.out.flowed(float64(res.Rate), spread)
	if res.Capacity > 0 {
		p.out.several(float64(res.Capacity), res.Lanes)
	}
	if part, _ := p.out.part.value(); part > 0 && part < fills {
		// It never filled the queue, so what it lost the path has lost.
		packets := float64(res.Bytes) / trainPayload
		p.loss.add(packets, packets*res.Loss)
	}
	r.publish(peer, p, r.like(peer), netmap.SourceProbed)
}

// unsure is the least spread of a bulk probe that this host slowed down.
const unsure = 0.30

// observed takes what an exchange's lane to peer got while the network was the limit. It is
// exact if the lane was alone on its way between the sites, and else a lower bound.
func (r *recorder) observed(peer string, rate netmap.BytesPerSec, exact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.seeded(peer)
	like := r.like(peer)
	if exact {
		p.out.flowed(float64(rate), loneSpread)
	} else if !p.out.atLeast(float64(rate), like.siteFlow) {
		return
	}
	r.publish(peer, p, like, netmap.SourceObserved)
}

// flowBelief's view of what to measure next of the pair.
func (r *recorder) wants(peer string) wants {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seeded(peer).out.wants(r.like(peer).siteFlow)
}

// seedAge is up to which age an agent that has restarted takes its own row of the map for a
// reading.
const seedAge = time.Hour

// seeded returns the pair; one that is new begins with what this host's earlier life has found.
// The caller holds the lock.
func (r *recorder) seeded(peer string) *pair {
	p := r.pair(peer)
	if p.out.line.readings() > 0 {
		return p
	}
	e, ok := r.current(peer)
	if !ok || !e.Has(netmap.FieldBandwidth) || e.Source < netmap.SourceProbed || time.Since(e.Measured) > seedAge {
		return p
	}
	spread := max(e.Spread, loneSpread)
	line := e.Bandwidth
	if e.Has(netmap.FieldLine) {
		line = e.Line
	}
	p.out.train(float64(line), spread)
	if e.Has(netmap.FieldLine) {
		p.out.flowed(float64(e.Bandwidth), spread)
	}
	if e.Has(netmap.FieldCapacity | netmap.FieldLanes) {
		p.out.several(float64(e.Capacity), e.Lanes)
	}
	return p
}

// publish records what is believed of self→peer now. The caller holds the lock.
func (r *recorder) publish(peer string, p *pair, like like, source netmap.Source) {
	rate, spread := p.out.flow(like.siteFlow)
	if rate <= 0 {
		return
	}
	e := r.own(peer)
	e.Known |= netmap.FieldBandwidth
	e.Bandwidth, e.Spread = netmap.BytesPerSec(rate), spread
	e.Readings = p.out.readings()
	e.Source, e.Measured = source, time.Now()
	// The rate of the link only with a bulk probe of the pair's own: it is from these entries
	// that like pairs learn what one flow gets of it.
	e.Known &^= netmap.FieldLine | netmap.FieldCapacity | netmap.FieldLanes
	if line, _ := p.out.line.value(); line > 0 && p.out.bulk.readings() > 0 {
		e.Known |= netmap.FieldLine
		e.Line = netmap.BytesPerSec(line)
	}
	if c, lanes := p.out.capacityOf(); lanes > 0 {
		e.Known |= netmap.FieldCapacity | netmap.FieldLanes
		e.Capacity, e.Lanes = netmap.BytesPerSec(max(c, rate)), lanes
	}
	if loss, ok := p.loss.value(); ok {
		e.Known |= netmap.FieldLoss
		e.Loss = loss
	}
	p.last = e
	r.cfg.Record(r.cfg.Self.Name, peer, e)
}

// What like pairs know: those between the same two sites.
type like struct {
	siteFlow
	line float64 // median rate of the link; 0 unknown
}

// manyLike is where counting ends: a site pair of which so many pairs are measured is known.
const manyLike = 32

// like returns what the map holds of the other pairs from this host's site to peer's. The
// caller holds the lock.
func (r *recorder) like(peer string) like {
	lines, claims, inside := r.claims(r.cfg.Self.Name, peer)
	if inside {
		return like{line: medianOf(lines)} // pairs of a site share no link
	}
	return like{siteFlowOf(corroborate(r.cfg.Self.Name, claims)), medianOf(lines)}
}

// claims returns what the map holds of the pairs between the sites of from and to, without that
// pair: the rates of the link, and the estimates. inside says that it is one site.
func (r *recorder) claims(from, to string) (lines []float64, claims []claim, inside bool) {
	if r.cfg.Known == nil {
		return nil, nil, false
	}
	members := append(slices.Clone(r.cfg.Peers()), r.cfg.Self)
	fromSite, toSite := "", ""
	for _, m := range members {
		if m.Name == from {
			fromSite = m.site()
		}
		if m.Name == to {
			toSite = m.site()
		}
	}
	for _, a := range members {
		for _, b := range members {
			if len(lines) >= manyLike || a.site() != fromSite || b.site() != toSite || a.Name == b.Name {
				continue
			}
			if a.Name == from && b.Name == to {
				continue
			}
			e, ok := r.cfg.Known(a.Name, b.Name)
			if !ok || !e.Has(netmap.FieldBandwidth) || e.Source < netmap.SourceProbed {
				continue
			}
			line := e.Bandwidth
			if e.Has(netmap.FieldLine) && e.Line > 0 {
				line = e.Line
			}
			lines, claims = append(lines, float64(line)), append(claims, claim{a.Name, e})
		}
	}
	return lines, claims, fromSite == toSite
}

const (
	// disputed is by how much more than what arrived here a peer may say that it sends.
	disputed = 1.5
	// disputedLow is by how much less than what a flow should get of it.
	disputedLow = 4.0
	// disputeAfter is for how long it may: it learns of a change from the same trains as this
	// host, and news take their time.
	disputeAfter = 30 * time.Second
	// disputeEnd is for how long its claims must agree again.
	disputeEnd = 2 * time.Minute
)

// received takes what a train from peer read here. What a sender says of its own links
// cannot be checked by others, but by the receiver: where a peer goes on claiming far more than
// what its trains show, or far less than a flow gets of that by all that others of its site say, this
// host reports the pair, too, and says what it saw.
func (r *recorder) received(peer string, rate netmap.BytesPerSec, spread float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	p.in.add(float64(rate), spread)
	if r.cfg.Claimed == nil || p.in.readings() < 2 {
		return
	}
	now := time.Now()
	v, s := p.in.value()
	claim, ok := r.cfg.Claimed(peer, r.cfg.Self.Name)
	var wrong bool
	if ok && claim.Has(netmap.FieldBandwidth) {
		b := float64(claim.Bandwidth)
		if wrong = b > disputed*v; !wrong && disputedLow*b < v {
			v = min(v, r.expected(peer, v))
			wrong = disputedLow*b < v
		}
	}
	switch {
	case wrong:
		p.wrong = now
	case now.Sub(p.wrong) < disputeEnd:
		return // a claim that comes and goes is not taken back
	default:
		if p.objects && ok { // no more: agree, and leave it to the peer
			r.dispute(peer, claim, netmap.SourceProbed)
		}
		p.disputed, p.objects = time.Time{}, false
		return
	}
	if p.disputed.IsZero() {
		p.disputed = now
	}
	// It must have claimed it again since.
	if now.Sub(p.disputed) < disputeAfter || claim.Measured.Before(p.disputed) {
		return
	}
	if !p.objects {
		p.objects = true
		r.cfg.Log.Warn("a host claims another rate than it sends here", "host", peer,
			"claims_mbps", claim.Bandwidth.Mbps(), "seen_mbps", netmap.BytesPerSec(v).Mbps())
	}
	r.dispute(peer, netmap.Estimate{Bandwidth: netmap.BytesPerSec(v), Spread: s, Readings: p.in.readings(), Measured: now}, netmap.SourceProbed)
}

// arrives returns the rate at which trains from peer arrive here, 0 where none has.
func (r *recorder) arrives(peer string) netmap.BytesPerSec {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pairs[peer]
	if p == nil {
		return 0
	}
	v, _ := p.in.value()
	return netmap.BytesPerSec(v)
}

// expected returns what one flow from the peer should get here where its trains show line: all of it
// inside a site, and else what the other hosts of its site say, 0 if these are not two at least. The caller
// holds the lock.
func (r *recorder) expected(peer string, line float64) float64 {
	_, claims, inside := r.claims(peer, r.cfg.Self.Name)
	if inside {
		return line
	}
	return commonRate(slices.DeleteFunc(claims, func(c claim) bool { return c.from == peer }))
}

// dispute records this host's side of peer→self. The caller holds the lock.
func (r *recorder) dispute(peer string, e netmap.Estimate, source netmap.Source) {
	r.cfg.Record(peer, r.cfg.Self.Name, netmap.Estimate{
		Known: netmap.FieldBandwidth, Bandwidth: e.Bandwidth, Spread: e.Spread,
		Readings: e.Readings, Source: source, Measured: e.Measured,
	})
}
