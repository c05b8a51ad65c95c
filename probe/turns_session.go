package probe

import (
	"context"
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// wire returns what the session took of a link.
func (res result) wire() int64 {
	if res.Trains == 0 {
		return 0
	}
	return res.Bytes + res.Bytes/trainPayload*packetCost + sessionCost
}

// attempt measures the bandwidth to peer, again at once while the readings do not fit
// and more allows, and notes how that ended. It returns the bytes that links carried for
// it and the last rate, 0 if none was read.
func (p *Prober) attempt(ctx context.Context, peer Peer, u use, more func() bool) (bytes int64, rate netmap.BytesPerSec, err error) {
	for range opinions {
		res, again, err := p.session(ctx, peer, u)
		bytes += res.wire()
		if ctx.Err() != nil {
			return bytes, rate, context.Cause(ctx)
		}
		p.settle(peer.Name, func(s *peerState) *schedule { return &s.bandwidth }, p.pause(peer), err)
		if err != nil {
			return bytes, rate, err
		}
		rate = res.Bandwidth
		if !again || !more() {
			break
		}
		u = urgent
	}
	return bytes, rate, nil
}

// pause is for how long a peer that was measured is left alone at least.
func (p *Prober) pause(peer Peer) time.Duration {
	if peer.site() == p.cfg.Self.site() {
		return p.cfg.Interval / 10
	}
	return watchGap
}

// note remembers what the last train to peer read, and how many packets were enough for it. A second opinion between sites begins
// with 6 on a slow link, which may lose none: the next train that watches the pair has no fewer than watchTrain for that.
func (p *Prober) note(peer Peer, u use, res result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.peers[peer.Name]; s != nil {
		s.read, s.suspected = res.Bandwidth, time.Time{}
		if u != urgent || peer.site() == p.cfg.Self.site() {
			s.length = res.Enough
		} else if res.Enough > 0 {
			s.length = max(res.Enough, watchTrain)
		}
	}
	if l := p.links[peer.site()]; l != nil && peer.site() != p.cfg.Self.site() {
		l.read = res.Bandwidth
	}
}

// session runs trains to peer, with this host's slot held, and records the result. It
// reports whether the estimator wants another at once: this one does not fit.
func (p *Prober) session(ctx context.Context, peer Peer, u use) (res result, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTime)
	defer cancel()
	if u != urgent {
		var stop func()
		ctx, stop = p.whileIdle(ctx)
		defer stop()
	}
	// The connection comes first: a handshake must not hold the slot.
	s, err := p.cfg.Endpoint.Open(ctx, peer.Name, 0, lane.StreamProbe)
	if err != nil {
		return result{}, false, err
	}
	release, err := p.takeSlot(ctx)
	if err != nil {
		s.Abort()
		return result{}, false, err
	}
	defer release()
	ask := message{Op: opTrain, Count: p.length(peer, u), Urgent: u == urgent}
	inside := peer.site() == p.cfg.Self.site()
	// A second opinion during an exchange is one short train.
	more := func() bool { return !p.cfg.Busy() && !p.curbed() }
	res, err = initiate(ctx, s, ask, sender(ctx, p.cfg.Endpoint, s.Peer.Addr), more)
	p.charge(res.wire())
	p.mu.Lock()
	if inside {
		p.budget.spend(time.Now(), u, res.wire(), max(res.Bandwidth, netmap.BytesPerSec(p.budget.rate)), p.hostTerms())
	}
	if err == nil {
		p.stats.Sessions++
	}
	p.mu.Unlock()
	if err != nil {
		s.Abort()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return res, false, fmt.Errorf("trains: %w", err)
	}
	again = p.rec.trains(peer.Name, peer.site(), res)
	p.note(peer, u, res)
	p.cfg.Log.Debug("measured", "peer", peer.Name, "mbps", res.Bandwidth.Mbps(), "spread", res.Spread,
		"trains", res.Trains, "bytes", res.Bytes, "shaped", res.Shaped, "limited", res.Limited)
	return res, again, nil
}

// length returns how many packets the first train of a session has: as many as were enough last time, so
// that no bytes are spent on trains that are too short to time. Second opinions between sites begin
// short, since the link may have fallen, or an exchange use it.
func (p *Prober) length(peer Peer, u use) int {
	if u == first {
		return firstTrain
	}
	least := watchTrain
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[peer.site()]; l != nil && l.read > 0 && l.read < slowLink {
		least = slowTrain
	}
	if s := p.peers[peer.Name]; s != nil && (u != urgent || peer.site() == p.cfg.Self.site()) {
		return max(least, s.length)
	}
	return least
}

// takeSlot takes this host's slot, or returns a [BusyError] if it is not free soon: a
// long probe holds it for seconds, and a turn is over by then.
func (p *Prober) takeSlot(ctx context.Context) (release func(), err error) {
	t := time.NewTimer(insideTime)
	defer t.Stop()
	select {
	case p.slot <- struct{}{}:
		return func() { <-p.slot }, nil
	case <-t.C:
		return nil, &BusyError{Retry: slotRetry, Why: "another probe of this host"}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// whileIdle returns a context that ends with a [BusyError] as soon as an exchange begins
// here. stop must be called; it waits for the goroutine that looks.
func (p *Prober) whileIdle(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		yieldWhen(ctx, func() bool { return !p.cfg.Busy() && !p.curbed() }, cancel)
	}()
	return ctx, func() { cancel(nil); <-done }
}

// takeIdle is takeSlot for what yields to an exchange: the context that it returns is that of whileIdle, until release is called.
func (p *Prober) takeIdle(ctx context.Context) (_ context.Context, release func(), err error) {
	free, err := p.takeSlot(ctx)
	if err != nil {
		return ctx, nil, err
	}
	ctx, stop := p.whileIdle(ctx)
	return ctx, func() { stop(); free() }, nil
}
