package probe

import (
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A recorder turns samples into estimates and hands them on.
type recorder struct {
	cfg *Config

	mu    sync.Mutex // guards all below, and keeps read-change-write of the map in order
	pairs map[string]*pair
}

// pair is what was seen of self→peer.
type pair struct {
	rtt  rttFilter
	rate rateFilter
	last netmap.Estimate // as recorded here
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
	e, _ := r.current(peer)
	latency, now := rtt/2, time.Now()
	if e.Has(netmap.FieldLatency) && now.Sub(e.Measured) < r.cfg.Interval {
		if diff := (latency - e.Latency).Abs(); diff < 100*time.Microsecond || diff < latency/50 {
			return
		}
	}
	e.Known |= netmap.FieldLatency
	e.Latency = latency
	if !e.Has(netmap.FieldBandwidth) {
		e.Measured = now // the age of an estimate is that of its bandwidth, where it has one
	}
	p.last = e
	r.cfg.Record(r.cfg.Self.Name, peer, e)
}

// trains takes the result of one session.
func (r *recorder) trains(peer string, res result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	p.rate.add(float64(res.Bandwidth), res.Spread)
	rate, spread := p.rate.value()
	e, _ := r.current(peer)
	e.Known |= netmap.FieldBandwidth
	e.Bandwidth, e.Spread = netmap.BytesPerSec(rate), spread
	e.Source, e.Measured = netmap.SourceProbed, time.Now()
	p.last = e
	r.cfg.Record(r.cfg.Self.Name, peer, e)
}
