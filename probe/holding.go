package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

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
	p.rouse()
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
	tell := func(l load) error { p.takeLoad(keeper, l, time.Now()); return nil }
	var heard <-chan word
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
		var quit func()
		heard, quit = p.words.listen()
		defer quit()
	} else {
		s, err := p.askHold(ctx, keeper)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, s.Abort)()
		ch, ended := p.hearKeeper(s)
		defer func() { finish(s); <-ended }() // which ends with the stream
		heard, lost = ch, ended
		tell = func(l load) error {
			s.SetWriteDeadline(time.Now().Add(askTime))
			return writeMessage(s, loadMessage(l))
		}
	}
	return p.holding(keeper, heard, lost, tell)
}

// holding tells the keeper what this host sees of the links, and hears what the keeper has to say, as long as the hold is
// wanted.
func (p *Prober) holding(keeper string, heard <-chan word, lost <-chan struct{}, tell func(load) error) error {
	t := time.NewTicker(loadsEvery)
	defer t.Stop()
	var m meterLoad
	var checked, spoke time.Time
	for {
		select {
		case <-lost:
			return errors.New("the keeper of the links has ended the hold")
		case w := <-heard:
			now := time.Now()
			p.linkFell(w, now.Sub(m.pressed[w.site]) <= pressAge, now)
		case now := <-t.C:
			if now.Sub(checked) >= holdCheck {
				if checked = now; !p.crossing.wanted(now) || p.keeperName() != keeper {
					return nil
				}
			}
			ls := p.loadsOf(&m, now)
			if len(ls) == 0 && now.Sub(spoke) >= loadQuiet {
				ls = append(ls, load{})
			}
			for _, l := range ls {
				if err := tell(l); err != nil {
					return err
				}
				spoke = now
			}
		}
	}
}

// hearKeeper reads what the keeper says on the stream of a hold. ended is closed when the stream has ended.
func (p *Prober) hearKeeper(s control) (heard chan word, ended chan struct{}) {
	heard, ended = make(chan word, 4), make(chan struct{})
	go func() { // ends with the stream
		defer close(ended)
		for {
			m, err := readMessage(s, opFallen)
			if err != nil {
				return
			}
			select {
			case heard <- word{m.Site, netmap.BytesPerSec(m.Rate)}:
			default: // it will be said again
			}
		}
	}()
	return heard, ended
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
