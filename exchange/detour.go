package exchange

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A host that cannot reach another one any more, or only over a link that has fallen, sends by way of a third one:
// the stream runs to that host, which pipes it on (pipe.go). Frames and answers are end to end, so blocks, tokens,
// windows and what follows a broken stream are as without the third one, which needs no part of the exchange.

const (
	// silence is how long packets go to a host without any coming back before the way there counts as broken: 4 s
	// are three of quic-go's probe timeouts or more, and less than the 7 s after which a group gives a
	// host up that its coordinator hears nothing of.
	silence = 4 * time.Second
	// silentTrips is the same in round trips, where they are long.
	silentTrips = 8
	// silentPackets is how many packets must have gone unanswered.
	silentPackets = 3
	// stalledDetour is how long a detour may leave chunks unanswered: the link behind the third host may be broken.
	stalledDetour = 10 * time.Second
	// detourStagger is the pause before the next host is tried as well (RFC 8305, §5, has 250 ms), and detourTimeout what
	// all of them have.
	detourStagger = 250 * time.Millisecond
	detourTimeout = 5 * time.Second
	// brokenFor is how long exchanges that begin take a way for broken that was found so.
	brokenFor = time.Minute
	// deafFor is how long a host that has found out itself is told nothing by the other end: longer than twice brokenFor, for which
	// that one may hold what it was told.
	deafFor = 5 * time.Minute
	// maxVias bounds the hosts that are tried.
	maxVias = 8
)

// An Ear hears whether anything comes back on a connection. The zero value is ready to use.
type Ear struct {
	sent, received uint64    // packets of its connection
	since          time.Time // from then on nothing has come back for what was sent
	heard          time.Time // when something came last
}

// Silent notes that sent and received packets were counted at now. It reports whether the way to the peer counts as broken:
// packets go there and nothing has come back for long, which depends on the round trip.
func (e *Ear) Silent(sent, received uint64, now time.Time, rtt time.Duration) bool {
	return e.listen(sent, received, now, silentFor(rtt))
}

// Heard returns when something came last, as far as Silent was told.
func (e *Ear) Heard() time.Time { return e.heard }

// silentFor is how long a peer is silent behind a broken way.
func silentFor(rtt time.Duration) time.Duration { return max(silence, silentTrips*rtt) }

// listen is Silent for a given patience.
func (e *Ear) listen(sent, received uint64, now time.Time, patience time.Duration) bool {
	if received != e.received || e.heard.IsZero() {
		e.heard = now
	}
	if e.since.IsZero() || received != e.received || sent <= e.sent {
		e.sent, e.received, e.since = sent, received, now
		return false
	}
	return sent-e.sent >= silentPackets && now.Sub(e.since) >= patience
}

// heed gives up the lanes to p on which nothing comes back. Where that is so of all that go straight, the way is broken: from now on
// they go by way of another host. It needs x.mu.
func (x *run) heed(p *peer, now time.Time) {
	silent, alive := false, false // of those that go straight
	var heard time.Time           // on the last of them
	for _, l := range p.outs {
		m, ok := l.stream.(measured)
		if !ok {
			continue
		}
		st := m.Stats()
		patience := silentFor(st.SmoothedRTT)
		dead := l.ear.listen(st.PacketsSent, st.PacketsReceived, now, patience)
		if l.by == "" {
			silent, alive = silent || dead, alive || now.Sub(l.ear.heard) < patience
			if l.ear.heard.After(heard) {
				heard = l.ear.heard
			}
		} else if dead || l.sent > l.got && now.Sub(l.heard) > stalledDetour {
			x.eng.cfg.Log.Debug("detour leads nowhere", "peer", p.name, "by", l.by, "exchange", x.part.ID)
			p.by, dead = "", true
		}
		if dead {
			l.stream.Abort()
		}
	}
	if silent && !alive {
		x.eng.cfg.Log.Info("the way to a host is broken: data go by way of others", "peer", p.name, "exchange", x.part.ID)
		p.away = true
		x.eng.Broke(p.name, heard)
	}
}

// open opens lane n to p, by way of another host where the straight way is broken. It returns that host's name.
func (x *run) open(p *peer, n int) (s Stream, by string, err error) {
	x.mu.Lock()
	p.away = p.away || x.adapts() && p.main == nil && x.eng.Broken(p.name)
	away, vias := p.away, p.vias
	x.mu.Unlock()
	if vias != nil {
		return x.detour(p.ctx, p.name, vias)
	}
	if away {
		if s, by, err = x.detour(p.ctx, p.name, x.vias(p)); err == nil || p.ctx.Err() != nil {
			return s, by, err
		}
	}
	began := time.Now()
	s, err = x.eng.cfg.Open(p.ctx, p.name, n)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		p.away, p.failing = false, time.Time{}
	case p.failing.IsZero():
		p.failing = began
	}
	if err != nil {
		if p.away = x.adapts() && time.Since(p.failing) >= silence; p.away {
			x.eng.Broke(p.name, p.failing)
		}
	}
	return s, "", err
}

// A breach is a straight way that was found broken.
type breach struct {
	since time.Time // nothing has come from the host since then
	at    time.Time // when this host heard of it last
	own   time.Time // when it found out itself; zero: it was told
}

// Broke notes that the straight way to a host was found broken, by an exchange or by who else has found out: nothing has come
// over it since then.
func (e *Engine) Broke(host string, since time.Time) { e.breach(host, since, true) }

// ToldBroken notes that a host says that it cannot reach this one. Who has found out itself a short time ago believes only
// itself: two hosts that tell each other in turns would else never try the straight way again.
func (e *Engine) ToldBroken(host string) { e.breach(host, time.Now().Add(-silence), false) } // it takes that long to find out

func (e *Engine) breach(host string, since time.Time, own bool) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.broken[host]
	switch {
	case own:
		b.own = now
	case now.Sub(b.own) < deafFor:
		return
	}
	b.at, b.since = now, since
	if e.broken == nil || len(e.broken) >= maxHosts {
		e.broken = make(map[string]breach)
	}
	e.broken[host] = b
}

// Broken reports whether the straight way to a host was found broken in the last minute, and no connection was made since: what begins now does
// not wait to find that out again. A host whose agent was killed and started anew is reached at once.
func (e *Engine) Broken(host string) bool {
	var whole time.Time
	if e.cfg.Connected != nil {
		whole = e.cfg.Connected(host)
	}
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	b, ok := e.broken[host]
	if ok && now.Sub(b.at) >= deafFor {
		delete(e.broken, host)
	}
	return ok && now.Sub(b.at) < brokenFor && !whole.After(b.since)
}

// vias returns the hosts by way of which p may be reached. Hosts without a part come last.
func (x *run) vias(p *peer) []string {
	x.mu.Lock()
	last := p.by
	x.mu.Unlock()
	n := len(x.part.Hosts)
	var hosts, others []string
	for k := 1; k < n; k++ {
		hosts = append(hosts, x.part.Hosts[(x.part.Self+k)%n]) // so that hosts begin with different ones
	}
	if x.eng.cfg.Vias != nil {
		others = x.eng.cfg.Vias()
	}
	return Vias(x.eng.cfg.Self, p.name, last, x.eng.cfg.Site, hosts, others)
}

// Vias returns by way of which hosts, at most 8, self may reach the host called to, the best first: last if it is one of hosts, and then by
// turns hosts of self's site, of to's and of others, which fail for different reasons. Then come others, as they are. site
// returns the label of a host.
func Vias(self, to, last string, site func(string) string, hosts, others []string) []string {
	home, there := site(self), site(to)
	type via struct {
		name string
		turn int
	}
	var all []via
	seen := make(map[string]int) // hosts of each site so far
	for _, name := range hosts {
		s := site(name)
		if name == to || name == self {
			continue
		}
		if s == home && home == there {
			s = name // one site: all are alike
		}
		all = append(all, via{name, seen[s]})
		seen[s]++
	}
	slices.SortStableFunc(all, func(a, b via) int {
		return cmp.Or(-boolCompare(a.name == last, b.name == last), cmp.Compare(a.turn, b.turn))
	})
	var names []string
	for _, v := range all {
		names = append(names, v.name)
	}
	for _, h := range others {
		if h != self && h != to && !slices.Contains(names, h) {
			names = append(names, h)
		}
	}
	return names[:min(len(names), maxVias)]
}

// boolCompare orders false before true.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// detour opens a stream to the host called to by way of the first of vias that leads there.
func (x *run) detour(ctx context.Context, to string, vias []string) (Stream, string, error) {
	return FirstVia(ctx, to, vias, func(ctx context.Context, via string) (Stream, error) { return x.by(ctx, via, to) })
}

// FirstVia returns the first stream to the host called to that open opens by way of one of vias, and by which. Each is tried a
// little later than the one before it; all of them together have 5 s.
func FirstVia[S interface{ Abort() }](ctx context.Context, to string, vias []string, open func(ctx context.Context, via string) (S, error)) (s S, by string, err error) {
	ctx, cancel := context.WithTimeout(ctx, detourTimeout)
	defer cancel()
	type attempt struct {
		s   S
		via string
		err error
	}
	attempts := make(chan attempt, len(vias))
	for i, via := range vias {
		go func() { // ends with ctx; waited for below
			a := attempt{via: via, err: context.Canceled}
			if sleep(ctx, time.Duration(i)*detourStagger) {
				a.s, a.err = open(ctx, via)
			}
			attempts <- a
		}()
	}
	var failed error
	for range vias {
		switch a := <-attempts; {
		case a.err != nil:
			failed = cmp.Or(failed, a.err)
		case by != "":
			a.s.Abort()
		default:
			s, by = a.s, a.via
			cancel()
		}
	}
	switch {
	case by != "":
		return s, by, nil
	case failed == nil:
		return s, "", fmt.Errorf("no way to %s, and no other host to go by", to)
	default:
		return s, "", fmt.Errorf("no way to %s, nor by %d other hosts: %w", to, len(vias), failed)
	}
}

// by opens a stream to the host called to by way of via, and waits until it is there.
func (x *run) by(ctx context.Context, via, to string) (Stream, error) {
	s, err := x.eng.cfg.Open(ctx, via, 0)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, s.Abort)
	var here [1]byte
	if _, err = s.Write(header{id: x.part.ID, lane: byLane, host: to}.appendTo(nil)); err == nil {
		if _, err = s.Read(here[:]); err == nil && here[0] != frameHere {
			err = fmt.Errorf("%w: kind %#02x from the host behind %s", errMalformed, here[0], via)
		}
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
