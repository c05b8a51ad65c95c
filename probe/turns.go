package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// nextInside measures the most valuable peer of this host's own site, if one is due,
// and returns how long to rest. Inside a site the hosts' slots are all that orders
// trains: a switch carries several at once.
func (p *Prober) nextInside(ctx context.Context) (time.Duration, error) {
	due, rest := p.rankOf(p.candidates(func(site string) bool { return site == p.cfg.Self.site() }))
	if len(due) == 0 {
		return rest, nil
	}
	if rest := p.afford(due[0].use()); rest > 0 {
		return rest, nil
	}
	p.attempt(ctx, due[0].Peer, due[0].use())
	return slotRetry / 3, nil // others want this host's slot too
}

// nextAcross measures a peer of another site, if one is due, under the lease of the
// link to its site, and returns how long to rest.
func (p *Prober) nextAcross(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	p.mu.Lock()
	shut := make(map[string]bool)
	for site, until := range p.closed {
		if now.Before(until) {
			shut[site] = true
		} else {
			delete(p.closed, site)
		}
	}
	p.mu.Unlock()
	ok := func(site string) bool { return site != p.cfg.Self.site() && !shut[site] }
	due, rest := p.rankOf(p.candidates(ok))
	if len(due) == 0 {
		return min(rest, idlePause/4), nil
	}
	if rest := p.afford(due[0].use()); rest > 0 {
		return rest, nil
	}
	site := due[0].site()
	u := due[0].use()
	give, err := p.lease(ctx, site, u)
	if err != nil {
		p.refused(site, err)
		return slotRetry, nil
	}
	// The lease was waited for: choose again, and if the peer is busy try another of
	// its site under the same lease.
	due, _ = p.rankOf(p.candidates(func(s string) bool { return s == site }))
	var res result
	for _, c := range due[:min(len(due), 3)] {
		res, err = p.attempt(ctx, c.Peer, u)
		var busy *BusyError
		if !errors.As(err, &busy) {
			break
		}
	}
	give(res.Bytes, res.Bandwidth)
	return slotRetry / 3, nil
}

func (p *Prober) rankOf(cs []candidate) ([]candidate, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return rank(cs, time.Now(), idlePause, p.rng)
}

// afford returns how long this host's own budget forbids a train.
func (p *Prober) afford(u use) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.budget.wait(time.Now(), u, firstTrain*trainPayload, p.cfg.Share, p.cfg.HostBurst), idlePause)
}

// refused leaves site alone for as long as its link's keeper said.
func (p *Prober) refused(site string, err error) {
	retry := busyRetry
	var busy *BusyError
	is := errors.As(err, &busy)
	if is {
		retry = max(busy.Retry, slotRetry)
	}
	retry = p.jitter(retry) + retry/4 // never before the keeper said
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed[site] = time.Now().Add(retry)
	p.tally(err, is)
}

// attempt measures the bandwidth to peer once and notes how that ended.
func (p *Prober) attempt(ctx context.Context, peer Peer, u use) (result, error) {
	res, err := p.session(ctx, peer, u)
	if ctx.Err() == nil {
		p.settle(peer.Name, func(s *peerState) *schedule { return &s.bandwidth }, p.cfg.Interval, err)
	}
	return res, err
}

// measure is one attempt with all that it needs, for [Prober.ProbeOnce].
func (p *Prober) measure(ctx context.Context, peer Peer) error {
	give := func(int64, netmap.BytesPerSec) {}
	if peer.site() != p.cfg.Self.site() {
		var err error
		if give, err = p.lease(ctx, peer.site(), first); err != nil {
			return err
		}
	}
	res, err := p.session(ctx, peer, first)
	give(res.Bytes, res.Bandwidth)
	return err
}

// session runs trains to peer, with this host's slot held, and records the result.
func (p *Prober) session(ctx context.Context, peer Peer, u use) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTime)
	defer cancel()
	// The connection comes first: a handshake must not hold the slot.
	s, err := p.cfg.Endpoint.Open(ctx, peer.Name, 0, lane.StreamProbe)
	if err != nil {
		return result{}, err
	}
	select {
	case p.slot <- struct{}{}:
	case <-ctx.Done():
		s.Abort()
		return result{}, context.Cause(ctx)
	}
	defer func() { <-p.slot }()
	res, err := initiate(ctx, s, sender(ctx, p.cfg.Endpoint, s.Peer.Addr), func() bool { return !p.cfg.Busy() })
	p.mu.Lock()
	p.budget.spend(time.Now(), u, res.Bytes, max(res.Bandwidth, netmap.BytesPerSec(p.budget.rate)), p.cfg.Share)
	p.stats.Bytes += res.Bytes
	if err == nil {
		p.stats.Sessions++
	}
	p.mu.Unlock()
	if err != nil {
		s.Abort()
		return res, fmt.Errorf("trains: %w", err)
	}
	p.rec.trains(peer.Name, res)
	p.cfg.Log.Debug("measured", "peer", peer.Name, "mbps", res.Bandwidth.Mbps(), "spread", res.Spread,
		"trains", res.Trains, "bytes", res.Bytes, "shaped", res.Shaped, "limited", res.Limited)
	return res, nil
}

// muteKeeper is after how many unanswered requests a host leases its links from
// itself: a keeper that is alive to the membership and dead to us must not end all
// measuring. Two trains may then meet on a link, see [keeper].
const muteKeeper = 3

// lease asks the keeper of this host's site for the link to site. The function that
// it returns gives the lease back and must be called once.
func (p *Prober) lease(ctx context.Context, site string, u use) (func(int64, netmap.BytesPerSec), error) {
	l := siteLink{p.cfg.Self.site(), site}
	name := keeperOf(l.from, append(slices.Clone(p.cfg.Peers()), p.cfg.Self))
	p.mu.Lock()
	mute := p.mute >= muteKeeper
	if mute {
		p.mute-- // ask once before the next time
	}
	p.mu.Unlock()
	if name == p.cfg.Self.Name || mute {
		return p.keeper.acquire(ctx, l, u)
	}
	s, err := p.askKeeper(ctx, name, site, u)
	p.heard(err)
	if err != nil {
		return nil, fmt.Errorf("lease of %s→%s from %s: %w", l.from, l.to, name, err)
	}
	return func(bytes int64, rate netmap.BytesPerSec) {
		s.SetDeadline(time.Now().Add(askTime))
		if writeMessage(s, message{Op: opDone, Bytes: bytes, Rate: float64(rate)}) != nil {
			s.Abort() // the lease ends with the stream
			return
		}
		finish(s)
	}, nil
}

// askKeeper returns the stream that holds the lease.
func (p *Prober) askKeeper(ctx context.Context, keeper, site string, u use) (*lane.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseQueue+askTime)
	defer cancel()
	s, err := p.cfg.Endpoint.Open(ctx, keeper, 0, lane.StreamProbe)
	if err != nil {
		return nil, err
	}
	s.SetDeadline(time.Now().Add(leaseQueue + askTime))
	stop := context.AfterFunc(ctx, s.Abort)
	if err = writeMessage(s, message{Op: opLease, Site: site, Again: u == again}); err == nil {
		_, err = readMessage(s, opGranted)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Abort()
		return nil, err
	}
	return s, nil
}

// heard counts a keeper's silence: a refusal is an answer.
func (p *Prober) heard(err error) {
	var busy *BusyError
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || errors.As(err, &busy) {
		p.mute = 0
	} else {
		p.mute++
	}
}

// serve answers a peer's stream. It runs in a goroutine of the endpoint.
func (p *Prober) serve(ctx context.Context, s *lane.Stream) {
	s.SetDeadline(time.Now().Add(askTime))
	m, err := readMessage(s, opPing, opTrain, opLease)
	if err == nil {
		switch m.Op {
		case opPing:
			err = pong(s)
		case opTrain:
			err = p.serveTrains(ctx, s, m)
		case opLease:
			err = p.serveLease(ctx, s, m)
		}
	}
	if err != nil {
		s.Abort()
		if errors.Is(err, errInvalid) {
			p.count(func(s *Stats) { s.Invalid++ })
			p.cfg.Log.Warn("invalid probe request", "peer", s.Peer.Name, "err", err)
		}
		return
	}
	s.Close()
}

func (p *Prober) serveTrains(ctx context.Context, s control, m message) error {
	if p.cfg.Busy() || p.stopped() {
		return p.decline(s, busyRetry, "exchange")
	}
	select {
	case p.slot <- struct{}{}:
	default:
		return p.decline(s, slotRetry, "another probe")
	}
	defer func() { <-p.slot }()
	p.count(func(s *Stats) { s.Served++ })
	return p.catch.respond(ctx, s, m, p.cfg.Busy)
}

func (p *Prober) serveLease(ctx context.Context, s *lane.Stream, m message) error {
	if p.cfg.Busy() || p.stopped() {
		return p.decline(s, busyRetry, "exchange")
	}
	own := p.cfg.Self.site()
	peers := p.cfg.Peers()
	insider := slices.ContainsFunc(peers, func(q Peer) bool { return q.Name == s.Peer.Name && q.site() == own })
	known := slices.ContainsFunc(peers, func(q Peer) bool { return q.site() == m.Site })
	if !insider || !known || m.Site == own {
		// Views may differ for a moment, so this is a refusal and no offence.
		return p.decline(s, time.Second, "link not known here")
	}
	s.SetDeadline(time.Now().Add(leaseQueue + leaseTime))
	u := first
	if m.Again {
		u = again
	}
	give, err := p.keeper.acquire(ctx, siteLink{own, m.Site}, u)
	var busy *BusyError
	if errors.As(err, &busy) {
		return p.decline(s, busy.Retry, busy.Why)
	} else if err != nil {
		return err
	}
	// A holder that vanishes is charged what it may have sent in one go.
	spent, rate := int64(firstTrain*trainPayload), netmap.BytesPerSec(0)
	defer func() { give(spent, rate) }()
	s.SetDeadline(time.Now().Add(leaseTime))
	if err := writeMessage(s, message{Op: opGranted}); err != nil {
		return err
	}
	done, err := readMessage(s, opDone)
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	spent, rate = done.Bytes, netmap.BytesPerSec(done.Rate)
	return nil
}

// stopped reports whether Run has returned.
func (p *Prober) stopped() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// decline refuses a request.
func (p *Prober) decline(s control, retry time.Duration, why string) error {
	p.count(func(s *Stats) { s.Declined++ })
	return writeMessage(s, message{Op: opBusy, RetryMS: max(retry.Milliseconds(), 1), Why: why})
}
