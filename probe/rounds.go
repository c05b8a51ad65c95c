package probe

import (
	"cmp"
	"context"
	"slices"
	"time"
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

	// lookTime is for how long the membership is taken to be as it was.
	lookTime = idlePause / 4
	// partnersRounds is for how many rounds partners are taken to be as they were.
	partnersRounds = 60
)

// pinger measures round trips, one peer after the other, until ctx ends.
func (p *Prober) pinger(ctx context.Context) error {
	if err := sleep(ctx, p.jitter(50*time.Millisecond)); err != nil {
		return err
	}
	for {
		var peer Peer
		ok := false
		if busy := p.pressed(); !busy || p.strangers() {
			peer, ok = p.nextPing(p.look(), busy)
		}
		if !ok {
			if err := sleep(ctx, p.pingRest(time.Now())); err != nil {
				return err
			}
			continue
		}
		err := p.round(ctx, peer)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.settle(peer.Name, func(s *peerState) *schedule { return &s.ping }, p.nextRound(peer), err)
	}
}

// strangers reports whether a peer may wait for its first ping. Beside operations nobody else is pinged.
func (p *Prober) strangers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.around.partners) == 0 {
		return true // nobody has looked who is there
	}
	for name := range p.around.partners {
		if s := p.peers[name]; s == nil || s.ping.notBefore.IsZero() && !s.ping.running {
			return true
		}
	}
	return false
}

// pingRest is how long a pinger rests that has found nobody to ping: while a peer waits to be dialed, or its path seems to have become
// longer, a short time, and else until the next beat.
func (p *Prober) pingRest(now time.Time) time.Duration {
	p.mu.Lock()
	soon := len(p.around.partners) == 0
	for name := range p.around.partners {
		s := p.peers[name]
		soon = soon || s != nil && (s.ping.notBefore.IsZero() && !s.ping.running || now.Sub(s.longer) < 5*longerPause)
	}
	p.mu.Unlock()
	if soon {
		return p.jitter(idlePause / 4)
	}
	return p.beat.Next(now, idlePause)
}

// nextRound is the pause before the next round of a peer: a short one while its path seems to have become longer.
func (p *Prober) nextRound(peer Peer) time.Duration {
	pause := p.rttInterval()
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.peers[peer.Name]; s != nil && time.Since(s.longer) < pause {
		return min(pause, longerPause)
	}
	return pause
}

// rttInterval is the pause between two rounds of one peer, of pings or of a look at what
// its connection says.
func (p *Prober) rttInterval() time.Duration {
	if p.cfg.RTTInterval > 0 {
		return p.cfg.RTTInterval
	}
	p.mu.Lock()
	n := len(p.around.partners)
	p.mu.Unlock()
	return max(10*time.Second, time.Duration(n)*100*time.Millisecond)
}

// nextPing chooses whom to ping, and marks it as being pinged: first a host of a site
// of which fewest hosts are connected, so that something is known of every site soon;
// among equals, the one that has waited longest. During an exchange (busy) only those
// count of whom nothing is known: the others' pings would measure its queues.
//
// A host that cannot be reached holds a pinger for ten seconds and more and is due again as soon after, so those that
// seem so come after all others, the one that has waited longest first, and hold one pinger at most. Of a site of which
// one host seems so and none is connected, all do.
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
	tried := func(q Peer) bool { // and not reached
		s := p.peers[q.Name]
		return s != nil && !s.ping.notBefore.IsZero() && (!connected[q.Name] || s.ping.failures > 0)
	}
	silent := make(map[string]bool) // sites
	for _, q := range peers {
		silent[q.site()] = silent[q.site()] || perSite[q.site()] == 0 && tried(q)
	}
	lost := func(q Peer) bool { return silent[q.site()] || tried(q) }
	taken := slices.ContainsFunc(peers, func(q Peer) bool {
		s := p.peers[q.Name]
		return s != nil && s.ping.running && lost(q)
	})
	due := slices.DeleteFunc(peers, func(q Peer) bool {
		s := p.peers[q.Name]
		if s == nil || taken && lost(q) {
			return true
		}
		theirs := !connected[q.Name] && q.Name < p.cfg.Self.Name && now.Sub(s.since) < dialGrace
		known := !s.ping.notBefore.IsZero()
		return s.ping.running || now.Before(s.ping.notBefore) || theirs || busy && known
	})
	if len(due) == 0 {
		return Peer{}, false
	}
	peer := slices.MinFunc(due, func(a, b Peer) int {
		waited := p.peers[a.Name].ping.notBefore.Compare(p.peers[b.Name].ping.notBefore)
		switch la, lb := lost(a), lost(b); {
		case la && lb:
			return waited
		case la:
			return 1
		case lb:
			return -1
		}
		return cmp.Or(cmp.Compare(perSite[a.site()], perSite[b.site()]), waited)
	})
	p.peers[peer.Name].ping.running = true
	return peer, true
}
