package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// pingers is how many peers are pinged, and at first dialed, at a time. Every
	// host dialing all others at once floods a slow site with handshakes: 190 of them
	// took 40 s over 1.25 Mbit/s.
	pingers = 2
	// dialGrace is how long the host with the higher name leaves the dialing of a
	// pair to the other, so that a pair does not make two connections.
	dialGrace = 8 * time.Second
	// idlePause is how long a worker rests at most when it has nothing to do: new
	// members are found by looking.
	idlePause = time.Second
	busyRetry = 500 * time.Millisecond
	slotRetry = 30 * time.Millisecond
	// flowing is how many packets since the last round show that traffic flows, so that
	// the connection's own statistics do; keep-alives and pings stay below.
	flowing = 64
)

// look returns the peers and brings the memory of them in line: a peer that has left is forgotten.
func (p *Prober) look() []Peer {
	peers := slices.DeleteFunc(slices.Clone(p.cfg.Peers()), func(q Peer) bool { return q.Name == p.cfg.Self.Name })
	keep := make(map[string]bool, len(peers))
	now := time.Now()
	p.mu.Lock()
	for _, q := range peers {
		keep[q.Name] = true
		if p.peers[q.Name] == nil {
			p.peers[q.Name] = &peerState{since: now}
		}
	}
	for name := range p.peers {
		if !keep[name] {
			delete(p.peers, name)
		}
	}
	p.mu.Unlock()
	p.rec.forget(keep)
	return peers
}

// pinger measures round trips, one peer after the other, until ctx ends.
func (p *Prober) pinger(ctx context.Context) error {
	if err := sleep(ctx, p.jitter(50*time.Millisecond)); err != nil {
		return err
	}
	for {
		peer, ok := p.nextPing(p.look(), p.cfg.Busy())
		if !ok {
			if err := sleep(ctx, p.jitter(idlePause/4)); err != nil {
				return err
			}
			continue
		}
		err := p.round(ctx, peer)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.settle(peer.Name, func(s *peerState) *schedule { return &s.ping }, p.rttInterval(), err)
	}
}

// rttInterval is the pause between two rounds of pings of one peer.
func (p *Prober) rttInterval() time.Duration {
	if p.cfg.RTTInterval > 0 {
		return p.cfg.RTTInterval
	}
	p.mu.Lock()
	n := len(p.peers)
	p.mu.Unlock()
	return max(10*time.Second, time.Duration(n)*100*time.Millisecond)
}

// nextPing chooses whom to ping, and marks it as being pinged: first a host of a site
// of which fewest hosts are connected, so that something is known of every site soon;
// among equals, the one that has waited longest. During an exchange (busy) only those
// count of whom nothing is known: the others' pings would measure its queues.
func (p *Prober) nextPing(peers []Peer, busy bool) (Peer, bool) {
	now := time.Now()
	connected := make(map[string]bool, len(peers))
	perSite := make(map[string]int)
	for _, q := range peers {
		if _, ok := p.cfg.Endpoint.Stats(q.Name); ok {
			connected[q.Name] = true
			perSite[q.site()]++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rng.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	due := slices.DeleteFunc(peers, func(q Peer) bool {
		s := p.peers[q.Name]
		theirs := !connected[q.Name] && q.Name < p.cfg.Self.Name && now.Sub(s.since) < dialGrace
		known := !s.ping.notBefore.IsZero()
		return s.ping.running || now.Before(s.ping.notBefore) || theirs || busy && known
	})
	if len(due) == 0 {
		return Peer{}, false
	}
	peer := slices.MinFunc(due, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(perSite[a.site()], perSite[b.site()]),
			p.peers[a.Name].ping.notBefore.Compare(p.peers[b.Name].ping.notBefore))
	})
	p.peers[peer.Name].ping.running = true
	return peer, true
}

// settle notes how an attempt ended and when the next may follow: after a success in
// interval, after a refusal when the peer said, after failures ever later.
func (p *Prober) settle(peer string, part func(*peerState) *schedule, interval time.Duration, err error) {
	next := p.jitter(interval)
	var busy *BusyError
	isBusy := errors.As(err, &busy)
	if err != nil && !isBusy {
		p.cfg.Log.Debug("probe failed", "peer", peer, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.peers[peer]
	if st == nil {
		return
	}
	s := part(st)
	s.running = false
	switch {
	case err == nil:
		s.failures = 0
	case isBusy:
		next = min(busy.Retry, time.Minute)
		next += time.Duration(p.rng.Float64() * float64(next))
	default:
		s.failures++
		next = min(time.Second<<min(s.failures, 6), interval)
	}
	s.notBefore = time.Now().Add(next)
	p.tally(err, isBusy)
}

// tally counts how an attempt ended. The caller holds the lock.
func (p *Prober) tally(err error, busy bool) {
	switch {
	case err == nil:
	case busy:
		p.stats.Refused++
	case errors.Is(err, errInvalid):
		p.stats.Invalid++
	default:
		p.stats.Failed++
	}
}

const (
	// pingEvery is how many rounds may pass on the word of the connection's statistics
	// alone: lanes send keep-alives, so those stay fresh and cost nothing more.
	pingEvery = 6
	// pingFirst is how many rounds are pings before that: a new grid is full of
	// handshakes and trains, and one round may meet a queue with all its pings.
	pingFirst = 5
)

// round measures the round trip to peer: from the connection's statistics while they
// agree with the last pings, with pings otherwise and now and then.
func (p *Prober) round(ctx context.Context, peer Peer) error {
	st, up := p.cfg.Endpoint.Stats(peer.Name)
	loaded, recent := p.flows(peer.Name, st.PacketsReceived)
	if d := st.LatestRTT; up && recent && d > 0 && d <= maxRTT {
		// A round trip that is longer under load says nothing, nor would pings.
		if p.rec.passive(peer.Name, d, st.MinRTT) || loaded {
			return nil
		}
	}
	return p.ping(ctx, peer)
}

// ping measures the round trip to peer with a round of pings and records it.
func (p *Prober) ping(ctx context.Context, peer Peer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*askTime) // half of it for a handshake
	defer cancel()
	s, err := p.cfg.Endpoint.Open(ctx, peer.Name, 0, lane.StreamProbe)
	if err != nil {
		return err
	}
	d, err := ping(ctx, s)
	if err != nil {
		s.Abort()
		return fmt.Errorf("ping: %w", err)
	}
	now := time.Now()
	p.mu.Lock()
	p.stats.Pings++
	if st := p.peers[peer.Name]; st != nil {
		st.pinged, st.rounds = now, st.rounds+1
	}
	p.mu.Unlock()
	st, _ := p.cfg.Endpoint.Stats(peer.Name)
	p.rec.active(peer.Name, d, max(st.MinRTT, 0))
	return nil
}

// flows notes the packets received from peer. It reports whether many are new, and
// whether peer was pinged often and recently enough.
func (p *Prober) flows(peer string, received uint64) (loaded, recent bool) {
	every := pingEvery * p.rttInterval()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peers[peer]
	if s == nil {
		return false, false
	}
	before := s.received
	s.received = received
	return before > 0 && received > before+flowing, s.rounds >= pingFirst && time.Since(s.pinged) < every
}

// trains measures bandwidth until ctx ends; next says of whom, or how long to rest.
func (p *Prober) trains(ctx context.Context, next func(context.Context) (time.Duration, error)) error {
	if err := sleep(ctx, p.jitter(100*time.Millisecond)); err != nil {
		return err
	}
	for {
		rest := busyRetry
		if !p.cfg.Busy() {
			var err error
			if rest, err = next(ctx); err != nil {
				return err
			}
		}
		if err := sleep(ctx, p.jitter(rest)); err != nil {
			return err
		}
	}
}

// candidates returns the connected peers that want a train, for sites for which ok holds.
// Peers are connected by the pingers, in an order and at a pace that suits the links.
func (p *Prober) candidates(ok func(site string) bool) []candidate {
	peers := p.look()
	mine := []string{p.cfg.Self.Name}
	for _, q := range peers {
		if q.site() == p.cfg.Self.site() {
			mine = append(mine, q.Name)
		}
	}
	siblings := make(map[string]int)
	var cs []candidate
	for _, q := range peers {
		if !ok(q.site()) {
			continue
		}
		siblings[q.site()] += p.measuredTo(mine, q.Name, siblings[q.site()])
		if _, up := p.cfg.Endpoint.Stats(q.Name); up {
			cs = append(cs, candidate{Peer: q})
		}
	}
	for i := range cs {
		c := &cs[i]
		c.siblings = siblings[c.site()]
		if e, ok := p.rec.known(c.Name); ok && e.Has(netmap.FieldBandwidth) && e.Source >= netmap.SourceProbed {
			c.measured = e.Measured
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cs {
		c := &cs[i]
		if s := p.peers[c.Name]; s != nil {
			c.notBefore = s.bandwidth.notBefore
		}
		// An agent that has restarted finds its own row in the map.
		if due := c.measured.Add(p.cfg.Interval * 3 / 4); !c.measured.IsZero() && due.After(c.notBefore) {
			c.notBefore = due
		}
	}
	return cs
}

// manySiblings is where counting ends: a site pair of which so many pairs are
// measured is known, and counting all would cost n² look-ups a choice.
const manySiblings = 16

// measuredTo counts the hosts of mine whose bandwidth to peer is measured, given
// that already were counted for its site.
func (p *Prober) measuredTo(mine []string, peer string, already int) (n int) {
	for _, from := range mine {
		if already+n >= manySiblings || p.cfg.Known == nil {
			break
		}
		if e, ok := p.cfg.Known(from, peer); ok && e.Has(netmap.FieldBandwidth) && e.Source >= netmap.SourceProbed {
			n++
		}
	}
	return n
}
