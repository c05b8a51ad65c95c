package gridnet

import "time"

// A port sends one packet after the other at its rate; others wait in a drop-tail
// queue. It is the egress and ingress of a host and the bottleneck of a pipe.
type port struct {
	rate   Rate
	limit  int // packets that may wait, without the one in transmission
	shape  *bucket
	done   stage // of a packet whose transmission has ended
	queue  fifo
	busy   *packet       // in transmission, nil when idle
	begin  time.Duration // when busy's transmission begins: in the future while it waits for tokens
	demand int           // most packets that ever waited
}

// offer takes p, or returns false if the queue is full.
func (s *port) offer(ev *agenda, now time.Duration, p *packet) bool {
	if s.busy == nil {
		s.transmit(ev, now, p)
		return true
	}
	if s.queue.len >= s.limit {
		return false
	}
	s.queue.push(p)
	s.demand = max(s.demand, s.queue.len)
	return true
}

// next begins the transmission of the packet that has waited longest; now is when
// the last one ended, by the port's clock and not by when the loop noticed it.
func (s *port) next(ev *agenda, now time.Duration) {
	s.busy = nil
	if p := s.queue.pop(); p != nil {
		s.transmit(ev, now, p)
	}
}

func (s *port) transmit(ev *agenda, now time.Duration, p *packet) {
	s.busy, s.begin = p, now
	if s.shape != nil {
		s.begin = s.shape.take(now, p.size)
	}
	p.stage = s.done
	p.at = s.begin + s.rate.time(p.size)
	ev.push(p)
}

// reshape changes rate and token bucket from now on. What is left of the packet in
// transmission goes at the new rate; one that waits for tokens waits anew.
func (s *port) reshape(ev *agenda, now time.Duration, rate Rate, shape *bucket) {
	old := s.rate
	s.rate = rate
	p := s.busy
	if p != nil && s.begin > now { // it is s.shape that it waits for
		s.shape.give(now, s.begin, p.size)
	}
	if s.shape != nil && shape != nil {
		shape.tokens, shape.at = min(s.shape.level(now), shape.burst), now
	}
	s.shape = shape
	if p == nil {
		return
	}
	if s.begin > now {
		s.begin = now
		if shape != nil {
			s.begin = shape.take(now, p.size)
		}
		p.at = s.begin + rate.time(p.size)
	} else {
		left := float64(p.at-now) / float64(old.time(p.size))
		p.at = now + time.Duration(left*float64(rate.time(p.size)))
	}
	ev.fix(p)
}

// drain empties the port and calls f with each packet that was in it.
func (s *port) drain(ev *agenda, f func(*packet)) {
	if p := s.busy; p != nil {
		ev.remove(p)
		s.busy = nil
		f(p)
	}
	for p := s.queue.pop(); p != nil; p = s.queue.pop() {
		f(p)
	}
}

// A bucket holds up to burst tokens, one a byte, and gets rate more a second.
type bucket struct {
	rate   Rate
	burst  float64
	tokens float64       // at time at
	at     time.Duration // may lie in the future: then all tokens until there are promised
}

// newBucket returns a full bucket, or nil for none.
func newBucket(rate Rate, burst int, now time.Duration) *bucket {
	if rate == 0 {
		return nil
	}
	return &bucket{rate: rate, burst: float64(burst), tokens: float64(burst), at: now}
}

func (b *bucket) level(now time.Duration) float64 {
	return min(b.burst, b.tokens+float64(b.rate)*(now-b.at).Seconds())
}

// take removes size tokens and returns when they are there, which is not before now.
func (b *bucket) take(now time.Duration, size int) time.Duration {
	b.tokens, b.at = b.level(now), now
	if missing := float64(size) - b.tokens; missing > 0 {
		b.tokens, b.at = 0, now+time.Duration(missing/float64(b.rate)*1e9)
		return b.at
	}
	b.tokens -= float64(size)
	return now
}

// give undoes take for a packet whose tokens would have been there at begin.
func (b *bucket) give(now, begin time.Duration, size int) {
	b.tokens, b.at = max(0, float64(size)-float64(b.rate)*(begin-now).Seconds()), now
}
