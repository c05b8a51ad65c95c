package exchange

import (
	"sync"
	"time"
)

const (
	// openingShare is the part of its part of a path, in payload, at which a host begins to send: headers are the rest.
	openingShare = 0.9
	// maxOpenings bounds the sites that are remembered.
	maxOpenings = 1024
)

// openings spread the first windows of all runs and peers over time, by site: what goes out before a peer has answered for the first time.
//
// Why it is here: first windows are bursts, of all pairs of hosts and all groups at the same instant. They overran the queue of the link, and
// with the windows that quic-go was left with, the link was 55 to 80 % busy for the next ten round trips, in which the reverse
// direction was full. On paths on which something holds each flow the [pacer] does this, and goes on.
type openings struct {
	mu   sync.Mutex // guards next; taken under run.mu
	next map[string]time.Time
}

// slot returns how long n bytes to site wait, from now, at rate bytes a second; most at the most.
func (o *openings) slot(site string, n int64, rate float64, most time.Duration, now time.Time) time.Duration {
	if !(rate > 0) || most <= 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil || len(o.next) >= maxOpenings {
		o.next = make(map[string]time.Time)
	}
	at := o.next[site]
	if at.Before(now) {
		at = now
	}
	wait := min(at.Sub(now), most)
	o.next[site] = now.Add(wait + time.Duration(min(float64(n)/rate*1e9, float64(most))))
	return wait
}

// opening returns how long n bytes to p wait that go out before its first answer. It is no longer than a round trip: by then
// the peer has answered. It needs x.mu.
func (x *run) opening(p *peer, n int64, now time.Time) time.Duration {
	rate := openingShare * float64(p.path.capacity()) / float64(x.mates())
	return x.eng.opens.slot(x.eng.cfg.Site(p.name), n, rate, p.path.RTT, now)
}
