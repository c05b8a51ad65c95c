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

// keeperOf returns the member that leases the links that leave site.
func keeperOf(site string, members []Peer) string {
	name := ""
	for _, m := range members {
		if m.site() == site && (name == "" || m.Name < name) {
			name = m.Name
		}
	}
	return name
}

const (
	// muteKeeper is after how many unanswered requests a host leases its links from
	// itself: a keeper that is alive to the membership and dead to us must not end all
	// measuring. Two trains may then meet on a link, see [keeper].
	muteKeeper = 3
	// muteRest is for how long it then does so before it asks again: the answer that does not come
	// costs it the turns of [leaseQueue] and more.
	muteRest = time.Minute
)

// lease asks the keeper of this host's site for the link to site. The function that
// it returns gives the lease back and must be called once.
func (p *Prober) lease(ctx context.Context, site string, q request) (func(int64, netmap.BytesPerSec), error) {
	l := siteLink{p.cfg.Self.site(), site}
	name := p.lender(site)
	p.mu.Lock()
	mute := p.mute >= muteKeeper && time.Since(p.muted) < muteRest
	if s := p.links[site]; s != nil && q.read == 0 {
		q.read = s.read
	}
	p.mu.Unlock()
	if name == p.cfg.Self.Name || mute {
		q.busy, q.back = p.cfg.Busy(), p.rec.arrivesFrom(site)
		q.substitute = p.keeperName() != p.cfg.Self.Name
		give, err := p.keeper.acquire(ctx, l, q)
		if err != nil {
			return nil, err
		}
		done := p.obey(p.keeper.recalls(l))
		return func(bytes int64, rate netmap.BytesPerSec) { done(); give(bytes, rate) }, nil
	}
	s, err := p.askKeeper(ctx, name, site, q)
	p.heard(err)
	p.answered(name, site, err)
	if err != nil {
		return nil, fmt.Errorf("lease of %s→%s from %s: %w", l.from, l.to, name, err)
	}
	s.SetDeadline(time.Now().Add(longLease))
	done := p.obeyStream(s)
	return func(bytes int64, rate netmap.BytesPerSec) {
		defer done()
		s.SetWriteDeadline(time.Now().Add(askTime))
		if writeMessage(s, message{Op: opDone, Bytes: min(bytes, maxBulkBytes), Rate: float64(rate)}) != nil {
			s.Abort() // the lease ends with the stream
			return
		}
		finish(s)
	}, nil
}

// askKeeper returns the stream that holds the lease.
func (p *Prober) askKeeper(ctx context.Context, keeper, site string, q request) (*lane.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseQueue+askTime)
	defer cancel()
	s, err := p.cfg.Endpoint.Open(ctx, keeper, 0, lane.StreamProbe)
	if err != nil {
		return nil, err
	}
	s.SetDeadline(time.Now().Add(leaseQueue + askTime))
	stop := context.AfterFunc(ctx, s.Abort)
	if err = writeMessage(s, leaseMessage(site, q)); err == nil {
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

// leaseMessage puts q into words; [message.request] is its inverse.
func leaseMessage(site string, q request) message {
	return message{Op: opLease, Site: site, Use: useNames[q.use], Bytes: min(q.cost, maxBulkBytes), Rate: float64(q.read)}
}

// request returns the request of a lease message that passed [message.check].
func (m message) request() (request, error) {
	u := slices.Index(useNames[:], m.Use)
	if u < 0 {
		return request{}, fmt.Errorf("lease for the use %q, want one of %q: %w", m.Use, useNames, errInvalid)
	}
	return request{use: use(u), cost: m.Bytes, read: netmap.BytesPerSec(m.Rate)}, nil
}

// heard counts a keeper's silence: a refusal is an answer.
func (p *Prober) heard(err error) {
	var busy *BusyError
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || errors.As(err, &busy) {
		p.mute = 0
	} else {
		p.mute, p.muted = p.mute+1, time.Now()
	}
}

// serveLease answers a request of a host of this site.
func (p *Prober) serveLease(ctx context.Context, s *lane.Stream, m message) error {
	q, err := m.request()
	if err != nil {
		return err
	}
	q.host = s.Peer.Name
	if p.stopped() {
		return p.decline(s, busyRetry, "the agent ends")
	}
	q.busy, q.back = p.cfg.Busy(), p.rec.arrivesFrom(m.Site)
	q.substitute = p.keeperName() != p.cfg.Self.Name
	own := p.cfg.Self.site()
	known := slices.ContainsFunc(p.cfg.Peers(), func(q Peer) bool { return q.site() == m.Site })
	if !p.insider(s.Peer.Name) || !known || m.Site == own {
		// Views may differ for a moment, so this is a refusal and no offence.
		return p.decline(s, time.Second, "link not known here")
	}
	hold := leaseTime
	if q.use == first || q.use == again || q.use == searching || q.use == glancing || q.use == together || q.use == operator {
		hold = longLease
	}
	s.SetDeadline(time.Now().Add(leaseQueue + hold))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)() // who has given up waits no longer
	give, err := p.keeper.acquire(ctx, siteLink{own, m.Site}, q)
	var busy *BusyError
	if errors.As(err, &busy) {
		return p.decline(s, busy.Retry, busy.Why)
	} else if err != nil {
		return err
	}
	// A holder that vanishes is charged what it meant to send.
	spent, rate := q.cost, netmap.BytesPerSec(0)
	defer func() { give(spent, rate) }()
	s.SetDeadline(time.Now().Add(hold))
	if err := writeMessage(s, message{Op: opGranted}); err != nil {
		return err
	}
	told := passOn(s, p.keeper.recalls(siteLink{own, m.Site}))
	done, err := readMessage(s, opDone)
	told()
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	spent, rate = done.Bytes, netmap.BytesPerSec(done.Rate)
	return nil
}
