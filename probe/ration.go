package probe

import (
	"sync"
	"time"
)

const (
	// rationShare is the part of the time for which one peer may hold this host's slot, or one host a link of
	// its site, in the long run. An honest one takes a few per cent at most; one that always takes the slot would end
	// what all others measure here, and what this host measures.
	rationShare = 0.25
	// rationBurst is for how long it may hold it at first: an operator's measurements, one after the
	// other. What has begun may exceed it, a LogP session over a slow link by a minute.
	rationBurst = 90 * time.Second
)

// rations account for how long each peer has held something, this host's slot or a link. The zero value is
// ready to use; it may be used concurrently.
type rations struct {
	mu    sync.Mutex // guards peers
	peers map[string]ration
}

// A ration is what a peer had left at a time. It may be below 0: what has begun is not cut short.
type ration struct {
	left time.Duration
	at   time.Time
}

func (r ration) now(now time.Time) ration {
	if passed := now.Sub(r.at); passed > 0 {
		r.left = min(r.left+time.Duration(rationShare*float64(passed)), rationBurst)
	}
	r.at = now
	return r
}

// wait returns in how long peer may have the slot again, 0 if it may now.
func (rs *rations) wait(peer string, now time.Time) time.Duration {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.peers[peer]
	if !ok {
		return 0
	}
	r = r.now(now)
	rs.peers[peer] = r // from now on, also by a clock that was set back
	if r.left > 0 {
		return 0
	}
	return time.Duration(float64(-r.left)/rationShare) + time.Second
}

// take notes that peer held the slot from since to now.
func (rs *rations) take(peer string, since, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.peers[peer]
	if !ok {
		r = ration{rationBurst, since}
	}
	r = r.now(now)
	r.left -= now.Sub(since)
	if rs.peers == nil {
		rs.peers = make(map[string]ration)
	}
	rs.peers[peer] = r
	for name, other := range rs.peers { // who has all of its ration back is not remembered
		if other.now(now).left >= rationBurst {
			delete(rs.peers, name)
		}
	}
}
