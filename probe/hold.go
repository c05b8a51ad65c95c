package probe

import (
	"errors"
	"fmt"
	"slices"
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
	// holdSilent is how long a holder may say nothing, see [loadQuiet].
	holdSilent = 10 * time.Second
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

// longHolds returns a sentence for each host that holds the links for long.
func (k *keeper) longHolds(now time.Time) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for host, h := range k.holds {
		if long := now.Sub(h.since); h.ended.IsZero() && long >= holdTold {
			out = append(out, fmt.Sprintf("host %s: it has kept the links of its site from being measured for %v, since it exchanges data by its word", host, long.Round(time.Second)))
		}
	}
	return out
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
	defer p.speak(s)()
	for checked := time.Now(); ; {
		s.SetReadDeadline(time.Now().Add(holdSilent))
		m, err := readMessage(s, opLoad)
		now := time.Now()
		switch {
		case errors.Is(err, errInvalid):
			return err
		case err != nil: // it was ended, or its host is gone, or mute
			return nil
		case now.After(end) || p.stopped():
			return nil
		case now.Sub(checked) >= holdMember:
			if checked = now; !p.insider(s.Peer.Name) {
				return nil
			}
		}
		if m.Site != "" {
			p.takeLoad(s.Peer.Name, m.load(), now)
		}
	}
}

// speak tells the holder at the other end of s what is found of the links, until quit is called.
func (p *Prober) speak(s *lane.Stream) (quit func()) {
	heard, leave := p.words.listen()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with quit
		defer close(ended)
		for {
			select {
			case w := <-heard:
				s.SetWriteDeadline(time.Now().Add(askTime))
				// Who does not read it is no worse than before.
				writeMessage(s, message{Op: opFallen, Site: w.site, Rate: float64(w.rate)})
			case <-stop:
				return
			}
		}
	}()
	return func() { leave(); close(stop); <-ended }
}

// keeperName returns the keeper of the links that leave this host's site.
func (p *Prober) keeperName() string {
	return keeperOf(p.cfg.Self.site(), append(slices.Clone(p.cfg.Peers()), p.cfg.Self))
}

// insider reports whether a host is of this site.
func (p *Prober) insider(host string) bool {
	return slices.ContainsFunc(p.cfg.Peers(), func(q Peer) bool { return q.Name == host && q.site() == p.cfg.Self.site() })
}
