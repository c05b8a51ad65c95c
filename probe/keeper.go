package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// leaseTime ends the lease of a holder that says nothing. A holder that dies loses
	// its lease with its connection, which is sooner.
	leaseTime = 15 * time.Second
	// longLease is the same where a long probe may follow, an operator's or a scheduled one.
	longLease = 2 * time.Minute
	// leaseQueue is how long a request waits for a lease that is held: handing over
	// beats asking again.
	leaseQueue   = 5 * time.Second
	leaseWaiters = 64   // a link
	leaseLinks   = 4096 // bounds the memory that requests for invented sites can take

	// watchGap is the least time between two trains that watch a link. On a link of
	// 12 Mbit/s and more it decides, on slower ones the budget does.
	watchGap = 2500 * time.Millisecond
	// urgentGap is the same for second opinions while an exchange runs. Those that found another
	// rate, or nothing, are followed by others sooner: see [alarms].
	urgentGap = 10 * time.Second
	// urgentMost is how many there may be in urgentGap. A train of 8 packets is 0.7 % of what
	// 1.2 Mbit/s carry in that time.
	urgentMost = 4
	// urgentRetry is after how long one follows another that was lost in a full queue.
	urgentRetry = 500 * time.Millisecond
	// outdated is how far what a host last read of a link must lie off what others have
	// read since for its next train to be urgent: more than trains differ by.
	outdated = 0.25

	// sessionCost is what a session costs a link beside its trains, each way: the
	// messages, their acknowledgements and the packets' headers.
	sessionCost = 900
	// packetCost is what a link carries of a packet beside its payload: UDP and IPv4.
	packetCost = 28
)

// A siteLink is the way from one site to another.
type siteLink struct{ from, to string }

// A request is what a host asks a keeper for.
type request struct {
	use  use
	cost int64              // bytes that it will send, about
	read netmap.BytesPerSec // what its last train over the link read, 0 if none
	busy bool               // an exchange runs at the keeper
}

// A keeper leases the links that leave its host's site: at most one probe a link at a
// time, within the link's budget. The keeper of a site is the member with the lowest
// name that carries its label, as each asker sees it: while views differ there may be
// two, and two trains may meet on a link. That spoils two samples and harms nobody,
// so nothing is done to rule it out.
type keeper struct {
	terms terms

	mu    sync.Mutex // guards the fields below; never held while waiting
	links map[siteLink]*leased
	holds map[string]*hold // by host of the site
}

type leased struct {
	held    bool
	since   time.Time // when the holder got it
	waiters int
	freed   chan struct{} // closed and replaced when the lease is given back
	budget  budget
	account account
	watched time.Time // when a watch was granted last
	alarms  alarms    // urgent trains that were granted while an exchange ran
	alarm   bool      // the holder's is one of them

	back     chan struct{} // closed when the lease is wanted back
	recalled bool          // it is
}

func newKeeper(t terms) *keeper {
	return &keeper{terms: t, links: make(map[siteLink]*leased), holds: make(map[string]*hold)}
}

// acquire waits for the lease of l, at most leaseQueue. It returns a [BusyError] if
// the lease cannot be had now: it is held, or the link's budget is spent. On success
// the caller must call release once with the bytes it sent and the rate it read, 0 if none.
func (k *keeper) acquire(ctx context.Context, l siteLink, q request) (release func(bytes int64, rate netmap.BytesPerSec), err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseQueue)
	defer cancel()
	for {
		freed, u, err := k.try(l, q)
		if err != nil {
			return nil, err
		}
		if freed == nil {
			return func(bytes int64, rate netmap.BytesPerSec) { k.release(l, u, bytes, rate) }, nil
		}
		select {
		case <-freed:
			k.leave(l)
		case <-ctx.Done():
			k.leave(l)
			return nil, &BusyError{Retry: time.Second, Why: "queue for the link"}
		}
	}
}

// try takes the lease, or returns what to wait for; the caller then owes a call of leave.
// It also returns what the lease is charged to: an asker whose last reading is
// outdated gets a second opinion.
func (k *keeper) try(l siteLink, q request) (freed <-chan struct{}, u use, err error) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	if e == nil {
		if len(k.links) >= leaseLinks {
			return nil, 0, &BusyError{Retry: time.Minute, Why: "too many links"}
		}
		e = &leased{freed: make(chan struct{})}
		k.links[l] = e
	}
	u = q.use
	if u == watch && q.read > 0 && e.budget.rate > 0 && apart(float64(q.read), e.budget.rate) > outdated {
		u = urgent
	}
	if q.busy = q.busy || k.isHeld(); q.busy {
		if u != urgent {
			return nil, 0, &BusyError{Retry: busyRetry, Why: "exchange"}
		}
		if d := e.alarms.wait(now); d > 0 {
			// What the other one finds may entitle this host to its own: it asks again.
			return nil, 0, &BusyError{Retry: min(d, time.Second), Why: "another second opinion during an exchange"}
		}
	}
	if d := watchGap - now.Sub(e.watched); u == watch && d > 0 {
		return nil, 0, &BusyError{Retry: d, Why: "the link was watched just now"}
	}
	if d := e.budget.wait(now, u, q.cost, k.terms); d > 0 {
		return nil, 0, &BusyError{Retry: d, Why: "budget of the link"}
	}
	if !e.held {
		e.held, e.since = true, now
		e.back, e.recalled = make(chan struct{}), false
		if u == watch {
			e.watched = now
		}
		if e.alarm = q.busy; q.busy {
			e.alarms.grant(now)
			e.recall()
		}
		return nil, u, nil
	}
	if e.waiters >= leaseWaiters {
		return nil, 0, &BusyError{Retry: time.Second, Why: "queue for the link"}
	}
	e.waiters++
	return e.freed, u, nil
}

func (k *keeper) leave(l siteLink) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.links[l].waiters--
}

func (k *keeper) release(l siteLink, u use, bytes int64, rate netmap.BytesPerSec) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	// Whoever claims more than the link carries in the time is wrong or lies; to believe it
	// would end the measuring of the link.
	if r := max(e.budget.rate, float64(rate)); r > 0 {
		bytes = min(bytes, maxSessionBytes+int64(2*r*now.Sub(e.since).Seconds()))
	}
	if e.held = false; bytes == 0 {
		e.watched = time.Time{} // the holder found its peer taken
	}
	if e.alarm {
		e.alarms.ended(now, bytes > 0, rate > 0, e.budget.rate > 0 && apart(float64(rate), e.budget.rate) > outdated)
	}
	e.budget.spend(now, u, bytes, rate, k.terms)
	e.account.add(now, bytes)
	close(e.freed)
	e.freed = make(chan struct{})
}

// costs returns what the links that were leased here have cost, by name.
func (k *keeper) costs(now time.Time) []LinkCost {
	k.mu.Lock()
	defer k.mu.Unlock()
	cs := make([]LinkCost, 0, len(k.links))
	for l, e := range k.links {
		cs = append(cs, LinkCost{From: l.from, To: l.to, Capacity: netmap.BytesPerSec(e.budget.rate), LastHour: e.account.total(now)})
	}
	slices.SortFunc(cs, func(a, b LinkCost) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return cs
}

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
	name := p.keeperName()
	p.mu.Lock()
	mute := p.mute >= muteKeeper && time.Since(p.muted) < muteRest
	if s := p.links[site]; s != nil && q.read == 0 {
		q.read = s.read
	}
	p.mu.Unlock()
	if name == p.cfg.Self.Name || mute {
		q.busy = p.cfg.Busy()
		give, err := p.keeper.acquire(ctx, l, q)
		if err != nil {
			return nil, err
		}
		done := p.obey(p.keeper.recalls(l))
		return func(bytes int64, rate netmap.BytesPerSec) { done(); give(bytes, rate) }, nil
	}
	s, err := p.askKeeper(ctx, name, site, q)
	p.heard(err)
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
	if p.stopped() {
		return p.decline(s, busyRetry, "the agent ends")
	}
	q.busy = p.cfg.Busy()
	own := p.cfg.Self.site()
	known := slices.ContainsFunc(p.cfg.Peers(), func(q Peer) bool { return q.site() == m.Site })
	if !p.insider(s.Peer.Name) || !known || m.Site == own {
		// Views may differ for a moment, so this is a refusal and no offence.
		return p.decline(s, time.Second, "link not known here")
	}
	hold := leaseTime
	if q.use == first || q.use == again {
		hold = longLease
	}
	s.SetDeadline(time.Now().Add(leaseQueue + hold))
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
