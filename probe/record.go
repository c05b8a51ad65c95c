package probe

import (
	"maps"
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A recorder turns samples into estimates and hands them on.
type recorder struct {
	cfg   *Config
	moved func() // is called when a link has changed, with the lock held; must not block. Nil: nobody's business

	mu     sync.Mutex // guards all below, and keeps read-change-write of the map in order
	pairs  map[string]*pair
	fell   map[string]time.Time // by site: when what this host's lanes to it get fell last
	heard  map[string]finding   // by site: of a fall that another host has found
	floors map[string]floor     // by site: what the link carries at least
	tolls  map[string]toll      // by site: what exchanges have counted of losses there

	shifts map[string]shift // by site: the last change of the link there
	lines  map[string]lines // by site: what mates have said of it
}

func newRecorder(cfg *Config) recorder {
	return recorder{
		cfg: cfg, pairs: make(map[string]*pair), fell: make(map[string]time.Time), heard: make(map[string]finding),
		floors: make(map[string]floor), tolls: make(map[string]toll), shifts: make(map[string]shift), lines: make(map[string]lines),
	}
}

// pair is what was seen of self→peer, and of peer→self.
type pair struct {
	rtt      rttFilter
	out      flowBelief
	loss     lossFilter
	in       rateFilter      // what trains from the peer read here
	disputed time.Time       // since when the peer claims more than that; zero if it does not
	wrong    time.Time       // when it did last
	objects  netmap.Estimate // what this host says of its side then; nothing known: nothing
	carried  carrying        // what exchanges brought from the peer's site
	last     netmap.Estimate // as recorded here
	trained  time.Time       // when the last train to the peer was read; zero before the first
	unread   *bulkResult     // the last bulk probe, where a train is to say what it means
	lowered  lowering        // the last time that trains, of this host or of others, have found it slower
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
	for name, p := range r.pairs {
		if now.After(p.carried.until) {
			r.unbring(name, p, now)
		}
	}
	maps.DeleteFunc(r.fell, func(_ string, at time.Time) bool { return now.Sub(at) > newsAge })
	maps.DeleteFunc(r.floors, func(_ string, f floor) bool { return now.Sub(f.at) > newsAge })
	maps.DeleteFunc(r.tolls, func(_ string, t toll) bool { return now.Sub(t.at) > tollAge })
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
	e.Known &^= netmap.FieldCarried // the host at the other end says it
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

// active takes the least round trip of a round of pings, see [rttFilter.active]. It reports whether the path has become longer,
// and whether it may have, of which more rounds soon would tell.
func (r *recorder) active(peer string, d, least, grain time.Duration, enough int) (longer, unsure bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	longer = p.rtt.active(d, grain, enough)
	r.roundTrip(peer, p, least)
	return longer, p.rtt.high > 0
}

// seemsLonger reports whether a round trip that the connection's own packets saw is longer than pings have found, or the peer
// says that it has found a longer one. full is what a full packet takes on the links of the path there and back, ping what one of a ping does.
func (r *recorder) seemsLonger(peer string, d, full, ping time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.pair(peer).rtt
	if f.seemsLonger(d-full, ping/2) {
		return true
	}
	if r.cfg.Claimed == nil {
		return false
	}
	e, ok := r.cfg.Claimed(peer, r.cfg.Self.Name)
	return ok && e.Has(netmap.FieldLatency) && f.seemsLonger(2*e.Latency, ping/2)
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
	if loss, ok := p.loss.value(); ok {
		spread = max(spread, p.out.doubt(like.siteFlow, rate, HeldRate(loss, 2*e.Latency)))
	}
	e.Known |= netmap.FieldBandwidth
	e.Bandwidth, e.Spread = netmap.BytesPerSec(rate), spread
	e.Readings = p.out.readings()
	e.Source, e.Measured = source, time.Now()
	// The rate of the link only with a bulk probe of the pair's own: it is from these entries
	// that like pairs learn what one flow gets of it. One of before the link changed says nothing of that.
	e.Known &^= netmap.FieldLine | netmap.FieldCapacity | netmap.FieldLanes
	if line, _ := p.out.line.value(); line > 0 && p.out.part.readings() > 0 {
		e.Known |= netmap.FieldLine
		e.Line = netmap.BytesPerSec(line)
	}
	if c, lanes := p.out.capacityOf(); lanes > 0 {
		e.Known |= netmap.FieldCapacity | netmap.FieldLanes
		e.Capacity, e.Lanes = netmap.BytesPerSec(max(c, rate)), lanes
	}
	if c := p.loss.count(); c.sent > 0 { // a few packets, and what all pairs have counted together tells of the link
		e.Known |= netmap.FieldLoss
		e.Loss, e.LossOf = c.share(), int(min(c.sent, netmap.MaxLossOf))
	}
	p.last = e
	r.cfg.Record(r.cfg.Self.Name, peer, e)
}
