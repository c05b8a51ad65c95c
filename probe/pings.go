package probe

import (
	"context"
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// pingEvery is how many rounds may pass on the word of the connection's statistics
	// alone: lanes send keep-alives, so those stay fresh and cost nothing more.
	pingEvery = 6
	// pingFirst is how many rounds are pings before that: a new grid is full of
	// handshakes and trains, and one round may meet a queue with all its pings.
	pingFirst = 5
	// pingShare is the part of the share of a link between sites that pings may take.
	// A round of them costs a link about pingCost bytes each way.
	pingShare = 0.05
	pingCost  = 800
	// longerPause is the pause between rounds of pings to a peer whose path seems to have become longer, in
	// which queues change. Pings to it may take as much as all probes then, and for longerTime after one was found to have
	// become longer those to its whole site.
	longerPause = 2 * time.Second
	longerTime  = time.Minute
	// pingRate is what a link is taken to carry while nobody knows, bytes a second.
	pingRate = 125e3
)

// round measures the round trip to peer: from the connection's statistics while they
// agree with the last pings, with pings otherwise and now and then.
func (p *Prober) round(ctx context.Context, peer Peer) error {
	st, up := p.cfg.Endpoint.Stats(peer.Name)
	loaded, known, recent := p.flows(peer.Name, st.PacketsReceived)
	if d := st.LatestRTT; up && known && d > 0 && d <= maxRTT {
		// A round trip that is longer under load says nothing, nor would pings. Without, it may hold a delayed
		// acknowledgement, or the path has become longer: pings tell which.
		wire := p.sendTime(peer)
		longer := p.rec.seemsLonger(peer.Name, d, wire*(trainPayload+packetCost)/pingPacket, wire) || p.lately(peer.site(), func(l *linkState) time.Time { return l.lengthened })
		if fits := p.rec.passive(peer.Name, d, st.MinRTT); recent && (fits && !longer || loaded) {
			return nil
		}
	}
	if !p.mayPing(peer) {
		return nil
	}
	return p.ping(ctx, peer)
}

// mayPing reports whether a round of pings is in the share of pings. Who was never
// pinged may be. Otherwise all hosts of this site together ping those of another so
// often that it takes a two-thousandth of the slower way between them (a twentieth of Share): over
// 1.16 Mbit/s one round in 11 s, of each pair of two sites of 8 hosts one in 12 minutes. What
// connections say of themselves is looked at every [Config.RTTInterval] all the same.
func (p *Prober) mayPing(peer Peer) bool {
	if peer.site() == p.cfg.Self.site() {
		return true
	}
	roster := p.roster()
	now := time.Now()
	round, _ := roundAt(now)
	mine := 1
	if i := roster.team(p.cfg.Self.site()); i >= 0 {
		mine = len(roster.teams[i].players(round))
	}
	slow, back := p.farther(peer), float64(p.rec.arrives(peer.Name))
	p.mu.Lock()
	defer p.mu.Unlock()
	s, l := p.peers[peer.Name], p.links[peer.site()]
	if s == nil || l == nil {
		return false
	}
	rate := pingRate
	if l.read > 0 {
		rate = float64(l.read)
	}
	if back > 0 { // pongs take as much
		rate = min(rate, back)
	}
	share := pingShare * p.cfg.Share
	if s.rounds < pingFirst {
		share *= pingFirst // while the grid is new
	}
	if slow && s.rounds < 2*pingFirst {
		share *= 2 * pingFirst
	}
	least := time.Second
	if now.Sub(s.longer) < 5*longerPause || now.Sub(l.lengthened) < longerTime {
		share, least = max(share, p.cfg.Share), least/4
	}
	pace := time.Duration(float64(mine) * pingCost / (share * rate) * float64(time.Second))
	if s.rounds > 0 && now.Sub(l.pinged) < max(pace, least) {
		return false
	}
	l.pinged = now
	return true
}

// farther reports whether peer seems farther away than other hosts of its site: its pings may
// have met a queue, and another round soon will tell.
func (p *Prober) farther(peer Peer) bool {
	const share, least = 1.02, 300 * time.Microsecond
	e, _ := p.rec.known(peer.Name)
	if !e.Has(netmap.FieldLatency) {
		return false
	}
	for _, q := range p.look() {
		if q.site() != peer.site() || q.Name == peer.Name {
			continue
		}
		o, _ := p.rec.known(q.Name)
		if o.Has(netmap.FieldLatency) && float64(e.Latency) > share*float64(o.Latency)+float64(least) {
			return true
		}
	}
	return false
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
	p.charge(pingCost)
	now := time.Now()
	p.mu.Lock()
	p.stats.Pings++
	if st := p.peers[peer.Name]; st != nil {
		st.pinged, st.rounds = now, st.rounds+1
	}
	p.mu.Unlock()
	st, _ := p.cfg.Endpoint.Stats(peer.Name)
	wire, enough := p.sendTime(peer), rttStep
	if p.lately(peer.site(), func(l *linkState) time.Time { return l.lengthened }) {
		enough = rttStepToo
	}
	longer, unsure := p.rec.active(peer.Name, d-min(wire, d/2), max(st.MinRTT, 0), wire/2, enough)
	p.noteLonger(peer, longer, unsure, now)
	return nil
}

// noteLonger has the others of a site pinged soon, too, where the path to one of its hosts has become longer.
func (p *Prober) noteLonger(peer Peer, longer, unsure bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, l := p.peers[peer.Name], p.links[peer.site()]
	if s == nil || l == nil {
		return
	}
	if unsure {
		s.longer = now
	}
	if !longer {
		return
	}
	if now.Sub(l.lengthened) > longerTime {
		for _, q := range p.around.peers {
			if s := p.peers[q.Name]; s != nil && q.site() == peer.site() && p.around.partners[q.Name] {
				s.ping.notBefore = now
			}
		}
	}
	l.lengthened = now
}

// lately reports whether something happened to the paths to a site within [longerTime].
func (p *Prober) lately(site string, what func(*linkState) time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[site]
	return l != nil && time.Since(what(l)) < longerTime
}

// pingPacket is what a link carries of a ping or its answer, about: 28 bytes of UDP and IPv4,
// QUIC's header and tag, and the message.
const pingPacket = 75

// sendTime returns how long a ping and its answer take to be sent over the narrowest link, as far as
// its rate is known: on 1.25 Mbit/s a millisecond, which is no part of the path's round trip.
func (p *Prober) sendTime(peer Peer) (d time.Duration) {
	p.mu.Lock()
	var out netmap.BytesPerSec
	if s := p.peers[peer.Name]; s != nil {
		out = s.read
	}
	if l := p.links[peer.site()]; l != nil && out == 0 && peer.site() != p.cfg.Self.site() {
		out = l.read
	}
	p.mu.Unlock()
	back := p.rec.arrives(peer.Name) // not what the peer says of it, who may lie
	if back == 0 {
		back = out
	}
	for _, r := range []netmap.BytesPerSec{out, back} {
		if r > 0 {
			d += min(r.Time(pingPacket), time.Second)
		}
	}
	return d
}

// flows notes the packets received from peer. It reports whether many are new, whether
// peer was ever pinged, and whether often and recently enough.
func (p *Prober) flows(peer string, received uint64) (loaded, known, recent bool) {
	every := pingEvery * p.rttInterval()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peers[peer]
	if s == nil {
		return false, false, false
	}
	before := s.received
	s.received = received
	return before > 0 && received > before+flowing, s.rounds > 0, s.rounds >= pingFirst && time.Since(s.pinged) < every
}
