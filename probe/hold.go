package probe

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// An exchange is disturbed by probes of hosts that take no part in it, where they share its
// link. So a host that begins to exchange data with other sites tells the keeper of its own
// site's links, which then grants only second opinions and wants back what is leased. The hosts at
// the other end tell theirs, so both directions are quiet. It is a courtesy to which a minute's
// delay does no harm: a keeper that does not answer is asked again, and nothing waits for it.

// opHold begins a hold: the stream is open for as long as an exchange runs at the sender.
const opHold op = "hold"

const (
	// holdMost is for how long a host may hold its site's links, with pauses shorter than
	// holdRest; after it the links are measured for holdRest. A host that always holds them
	// would leave the map without news.
	holdMost = time.Hour
	holdRest = 2 * time.Minute
	// holdLinger keeps a hold after the end of an exchange: of many short ones in a row not
	// each costs a message, nor lets a train in between.
	holdLinger = 2 * time.Second
	// holdCheck is how often a holder looks whether it still wants it, and from whom.
	holdCheck = time.Second
	// holdMember is how often the keeper looks whether the holder is still a member.
	holdMember = 5 * time.Second
)

// A hold is what a keeper remembers of a host that holds, or has held lately, its links.
type hold struct {
	since time.Time // begin of the first one in the row
	ended time.Time // zero while it lasts
	turn  int       // the newest takes over: after a restart the old stream may still be open
}

// hold begins a hold of all links that leave the site. It ends leases other than for second
// opinions. The caller must call release once, at the latest after left. The error is a [BusyError].
func (k *keeper) hold(host string) (release func(), left time.Duration, err error) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, h := range k.holds {
		if !h.ended.IsZero() && now.Sub(h.ended) >= holdRest {
			delete(k.holds, name)
		}
	}
	h := k.holds[host]
	if h == nil {
		if len(k.holds) >= leaseLinks {
			return nil, 0, &BusyError{Retry: time.Minute, Why: "too many hosts hold the links"}
		}
		h = &hold{since: now}
		k.holds[host] = h
	}
	if left = holdMost - now.Sub(h.since); left <= 0 {
		return nil, 0, &BusyError{Retry: holdRest, Why: "held for long"}
	}
	h.turn++
	h.ended = time.Time{}
	for _, e := range k.links {
		e.recall()
	}
	turn := h.turn
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if h.turn == turn {
			h.ended = time.Now()
		}
	}, left, nil
}

// isHeld reports whether a host holds the links. The caller holds the lock.
func (k *keeper) isHeld() bool {
	for _, h := range k.holds {
		if h.ended.IsZero() {
			return true
		}
	}
	return false
}

// recall tells the holder of the lease to be short. The caller holds the keeper's lock.
func (e *leased) recall() {
	if e.held && !e.recalled {
		e.recalled = true
		close(e.back)
	}
}

// recalls returns a channel that is closed when the lease of l, which the caller has, is
// wanted back.
func (k *keeper) recalls(l siteLink) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.links[l].back
}

// curbed reports whether this host has a lease that its keeper wants back: the session under it ends,
// or is one short train where it is a second opinion. It may hit a session of this
// host inside its site, too, which comes again.
func (p *Prober) curbed() bool { return p.curbs.Load() > 0 }

// obey curbs this host from when back is closed until done is called, which must be once.
func (p *Prober) obey(back <-chan struct{}) (done func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with done
		defer close(ended)
		select {
		case <-back:
			p.curbs.Add(1)
			<-quit
			p.curbs.Add(-1)
		case <-quit:
		}
	}()
	return func() { close(quit); <-ended }
}

// obeyStream is obey for a lease of another host's keeper, which says so on the stream. The
// stream is to be ended before the function that it returns is called.
func (p *Prober) obeyStream(s control) (done func()) {
	back, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with the stream
		defer close(ended)
		if _, err := readMessage(s, opBusy); err == nil {
			close(back)
		}
	}()
	stop := p.obey(back)
	return func() { <-ended; stop() }
}

// passOn tells the holder of a lease, at the other end of s, when it is wanted back.
func passOn(s control, back <-chan struct{}) (done func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with done
		defer close(ended)
		select {
		case <-back:
			// Who does not read it is no worse than before.
			writeMessage(s, message{Op: opBusy, RetryMS: busyRetry.Milliseconds(), Why: "exchange of this site"})
		case <-quit:
		}
	}()
	return func() { close(quit); <-ended }
}

// crossings counts the exchanges of this host with other sites.
type crossings struct {
	mu    sync.Mutex // guards the fields below
	n     int
	ended time.Time // when n became 0
}

// Crosses tells that an exchange with hosts of other sites runs here until over is called, which
// must be once: other hosts of this site are asked to leave its links alone. It does not block.
func (p *Prober) Crosses() (over func()) {
	c := &p.crossing
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	select {
	case p.crosses <- struct{}{}:
	default:
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.n--; c.n == 0 {
			c.ended = time.Now()
		}
	}
}

// wanted reports whether the links of the site are to be held.
func (c *crossings) wanted(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > 0 || !c.ended.IsZero() && now.Sub(c.ended) < holdLinger
}

// holds holds the links of this host's site while it exchanges data with others, until ctx ends.
func (p *Prober) holds(ctx context.Context) error {
	for {
		select {
		case <-p.crosses:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for p.crossing.wanted(time.Now()) {
			err := p.holdLinks(ctx)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err == nil {
				continue
			}
			rest := holdCheck
			var busy *BusyError
			if errors.As(err, &busy) {
				rest = min(max(busy.Retry, rest), time.Minute)
			}
			p.cfg.Log.Debug("links are not held", "err", err)
			if err := sleep(ctx, p.jitter(rest)); err != nil {
				return err
			}
		}
	}
}

// holdLinks holds the links of the site until that is no longer wanted, or the keeper ends it or is another.
func (p *Prober) holdLinks(ctx context.Context) error {
	keeper := p.keeperName()
	var lost <-chan struct{}
	if keeper == p.cfg.Self.Name {
		release, left, err := p.keeper.hold(keeper)
		if err != nil {
			return err
		}
		defer release()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
		lost = ctx.Done()
	} else {
		s, err := p.askHold(ctx, keeper)
		if err != nil {
			return err
		}
		defer finish(s)
		defer context.AfterFunc(ctx, s.Abort)()
		lost = s.Context().Done()
	}
	t := time.NewTicker(holdCheck)
	defer t.Stop()
	for {
		select {
		case <-lost:
			return errors.New("the keeper of the links has ended the hold")
		case <-t.C:
			if !p.crossing.wanted(time.Now()) || p.keeperName() != keeper {
				return nil
			}
		}
	}
}

// askHold returns the stream that is the hold.
func (p *Prober) askHold(ctx context.Context, keeper string) (*lane.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := p.cfg.Endpoint.Open(ctx, keeper, 0, lane.StreamProbe)
	if err != nil {
		return nil, err
	}
	s.SetDeadline(time.Now().Add(askTime))
	stop := context.AfterFunc(ctx, s.Abort)
	if err = writeMessage(s, message{Op: opHold}); err == nil {
		_, err = readMessage(s, opGranted)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Abort()
		return nil, err
	}
	s.SetDeadline(time.Time{})
	return s, nil
}

// serveHold holds the links of this site for the host at the other end of s, until it ends the stream.
func (p *Prober) serveHold(s *lane.Stream) error {
	if p.stopped() {
		return p.decline(s, busyRetry, "the agent ends")
	}
	if !p.insider(s.Peer.Name) {
		return p.decline(s, time.Second, "not of this site")
	}
	release, left, err := p.keeper.hold(s.Peer.Name)
	var busy *BusyError
	if errors.As(err, &busy) {
		return p.decline(s, busy.Retry, busy.Why)
	}
	defer release()
	end := time.Now().Add(left)
	if err := writeMessage(s, message{Op: opGranted}); err != nil {
		return err
	}
	for {
		s.SetReadDeadline(time.Now().Add(holdMember))
		switch _, err := s.Read(make([]byte, 1)); {
		case err == nil:
			return errInvalid // there is nothing to be said
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil // it was ended, or its host is gone
		case time.Now().After(end) || p.stopped() || !p.insider(s.Peer.Name):
			return nil
		}
	}
}

// keeperName returns the keeper of the links that leave this host's site.
func (p *Prober) keeperName() string {
	return keeperOf(p.cfg.Self.site(), append(slices.Clone(p.cfg.Peers()), p.cfg.Self))
}

// insider reports whether a host is of this site.
func (p *Prober) insider(host string) bool {
	return slices.ContainsFunc(p.cfg.Peers(), func(q Peer) bool { return q.Name == host && q.site() == p.cfg.Self.site() })
}
