package probe

import (
	"errors"
	"time"
)

// settle notes how an attempt ended and when the next may follow: after a success in
// interval, after a refusal when the peer said, after failures ever later.
func (p *Prober) settle(peer string, part func(*peerState) *schedule, interval time.Duration, err error) {
	if isBusy := errors.As(err, new(*BusyError)); err != nil && !isBusy {
		p.cfg.Log.Debug("probe failed", "peer", peer, "err", err)
	}
	next := p.jitter(interval)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally(err)
	if st := p.peers[peer]; st != nil {
		p.reschedule(part(st), next, err)
	}
}

// reschedule is settle for a schedule of any kind. The caller holds the lock.
func (p *Prober) reschedule(s *schedule, next time.Duration, err error) {
	s.running = false
	var busy *BusyError
	switch {
	case err == nil:
		s.failures = 0
	case errors.As(err, &busy):
		next = min(busy.Retry, time.Minute)
		next += time.Duration(p.rng.Float64() * float64(next))
	default:
		s.failures++
		next = min(time.Second<<min(s.failures, 6), next)
	}
	s.notBefore = time.Now().Add(next)
}

// tally counts how an attempt ended. The caller holds the lock.
func (p *Prober) tally(err error) {
	switch {
	case err == nil:
	case errors.As(err, new(*BusyError)):
		p.stats.Refused++
	case errors.Is(err, errInvalid):
		p.stats.Invalid++
	default:
		p.stats.Failed++
	}
}
