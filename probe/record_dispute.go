package probe

import (
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

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

// received takes what the last train of a session from peer read here. What a sender says of its own links
// cannot be checked by others, but by the receiver: where a peer goes on claiming far more than
// what its trains show, or far less than a flow gets of that by all that others of its site say, this
// host reports the pair, too, and says what it saw. Where its trains differ, as between hosts that are slower than the link, a claim
// may lie as far off as their spread, but no farther than one of the last few has shown: a peer whose trains make the receiver unsure hides no
// more than that. Once the claims have fitted for a while it takes that back, and says
// nothing of the pair any more.
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
	var wrong, unsure bool
	if ok && claim.Has(netmap.FieldBandwidth) {
		b := float64(claim.Bandwidth)
		least, most := p.in.bounds()
		if high := min(s, most/v-1); b > v {
			wrong, s = b > disputed*v*(1+high), high
		} else if low := min(s, v/least-1); disputedLow*b*(1+low) < v {
			expected := r.expected(peer, claim, v)
			v, s = min(v, expected), low
			wrong, unsure = disputedLow*b*(1+low) < v, expected == 0
		}
	}
	switch {
	case wrong:
		p.wrong = now
	case unsure && p.objects.Known != 0:
		return // a claim that nobody can judge refutes nothing: what was seen stands until it is outdated
	case now.Sub(p.wrong) < disputeEnd:
		return // a claim that comes and goes is not taken back
	default:
		if p.objects.Known != 0 { // to repeat the claim would have it believed of a suspect, as something that was seen here
			p.objects = netmap.Estimate{}
			r.side(peer, p, now)
		}
		p.disputed = time.Time{}
		return
	}
	if p.disputed.IsZero() {
		p.disputed = now
	}
	// It must have claimed it again since.
	if now.Sub(p.disputed) < disputeAfter || claim.Measured.Before(p.disputed) {
		return
	}
	if p.objects.Known == 0 {
		r.cfg.Log.Warn("a host claims another rate than it sends here", "host", peer,
			"claims_mbps", claim.Bandwidth.Mbps(), "seen_mbps", netmap.BytesPerSec(v).Mbps())
	}
	p.objects = netmap.Estimate{
		Known: netmap.FieldBandwidth, Bandwidth: netmap.BytesPerSec(v), Spread: s,
		Readings: p.in.readings(), Source: netmap.SourceProbed, Measured: now,
	}
	r.side(peer, p, now)
}

// side records what this host says of peer→self: the rate to which it objects, and what exchanges brought over the link. The caller holds the lock.
func (r *recorder) side(peer string, p *pair, now time.Time) {
	e := p.objects
	if e.Known == 0 { // as old as what the peer says: it is no reading of that
		e.Measured = now
		if r.cfg.Claimed != nil {
			if claim, ok := r.cfg.Claimed(peer, r.cfg.Self.Name); ok {
				e.Measured = claim.Measured
			}
		}
	}
	if p.carried.rate >= 1 { // the map refuses less, and what is objected with it
		e.Carried, e.Known = netmap.BytesPerSec(p.carried.rate), e.Known|netmap.FieldCarried
	}
	r.cfg.Record(peer, r.cfg.Self.Name, e)
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

// arrivesFrom returns the median of the rates at which trains from the hosts of a site arrive here, the upper one of two,
// since a host that sends slowly must not end what is measured the other way; 0 where none has.
func (r *recorder) arrivesFrom(site string) netmap.BytesPerSec {
	var rates []float64
	peers := r.cfg.Peers()
	r.mu.Lock()
	for _, q := range peers {
		if p := r.pairs[q.Name]; p != nil && q.site() == site && p.in.readings() > 0 {
			v, _ := p.in.value()
			rates = append(rates, v)
		}
	}
	r.mu.Unlock()
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return netmap.BytesPerSec(rates[len(rates)/2])
}

// expected returns what one flow from the peer, who says e of it, should get here where its trains show
// line: all of it inside a site, and else what the other hosts of its site say, 0 if these are not two at
// least. Those that have measured a flow come first: the others take a link's rate for a flow's,
// and where losses hold a flow the one who knows would be outvoted. Where nobody else has, the
// word of a peer that has stands as long as it says of the link what its trains show. The caller holds the lock.
func (r *recorder) expected(peer string, e netmap.Estimate, line float64) float64 {
	_, claims, inside := r.claims(peer, r.cfg.Self.Name)
	if inside {
		return line
	}
	claims = slices.DeleteFunc(claims, func(c claim) bool { return c.from == peer })
	measured := slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { _, ok := c.part(); return !ok })
	if rate := commonRate(measured); rate > 0 {
		return rate
	}
	if e.Has(netmap.FieldLine) && disputedLow*float64(e.Line) >= line {
		return 0
	}
	return commonRate(claims)
}
