package exchange

import (
	"math"
	"time"

	"github.com/quic-go/quic-go"
)

// What goes without a window goes at this host's part of what the map says that the link carries. A level corrects that under way, by what
// QUIC itself counts, which costs no packet: round trips that are longer than the least one by a queue, and packets that were lost. In a queue that is full
// of what hosts send too fast as much is lost as is sent too much, so that the share of packets that were lost says at once how much less the link takes.
// A long queue without losses may be that of the other direction, which round trips hold as well, and only ends that more is sent than is believed. What lowered the level sooner, losses of less than a fifth or a queue alone, made
// allgathers on the papers' three sites take 3 to 10 % longer: a little too much fills the link, and a little too little does not (docs/design/lanes.md).

const (
	// levelEvery is how often a level is looked at, levelPackets what must have gone since.
	levelEvery   = 200 * time.Millisecond
	levelPackets = 10
	// levelQueue and levelBytes are the queue that is left alone: the longer of a time and of what so many bytes take on the link.
	levelQueue = 3 * briefQueue
	levelBytes = 8 * 1500
	// levelUp is what a level grows by where less than a quarter of that stands in a queue, or less than half while it is below 1, and levelMost what it grows to: what is known of a link may be too little.
	levelUp, levelMost = 1.05, 1.5
	// levelLost is the share of lost packets that is left alone, and levelSurely the one that is no burst, of which one look is enough. levelLeast is the part that one look leaves, levelEnd what
	// all do: below that QUIC's congestion control has the say.
	levelLost            = 0.2
	levelSurely          = 0.5
	levelLeast, levelEnd = 0.4, 1. / 16
)

// A level is at how many times its part of a link a host sends to a site.
type level struct {
	at         float64
	room       time.Duration // queue that is left alone
	most       float64       // it rises to that
	since      time.Time     // of the last look
	sent, lost uint64        // packets since then
	queue      time.Duration // the least that round trips were longer by than without one, at the last tick
	over       bool          // too much was lost at the last look
	others     int           // exchanges beside this one that send there

	behind float64   // bytes that could have gone and have not, as there was nothing to send
	went   time.Time // when they were counted last
}

// rate is how fast is sent where part is this host's of what the link carries: other exchanges have as much each.
func (l *level) rate(part float64) float64 {
	if l == nil {
		return part
	}
	return part * l.at / float64(1+l.others)
}

// look corrects l by what has been counted since it was last.
func (l *level) look(now time.Time) {
	if now.Sub(l.since) < levelEvery || l.sent < levelPackets {
		return
	}
	if l.others > 0 {
		l.since, l.sent, l.lost = now, 0, 0
		return
	}
	lost := float64(l.lost) / float64(l.sent)
	over := l.queue > l.room && lost > levelLost
	switch {
	case over && (l.over || lost > levelSurely):
		l.at = max(l.at*max(1-lost, levelLeast), levelEnd)
	case l.at > 1 && l.queue > l.room:
		l.at = max(l.at/levelUp, 1)
	case l.at < 1 && l.queue < l.room/2, l.queue < l.room/4:
		l.at = min(l.at*levelUp, l.most)
	}
	l.over = over
	l.since, l.sent, l.lost = now, 0, 0
}

// levelBehind is how much of what goes in a while may be made up for, and levelAfter by how much faster what is behind goes.
const (
	levelBehind = time.Second
	levelAfter  = 0.1
)

// pace returns how fast n bytes go at now where rate is the level's: somewhat faster if there was nothing to send before.
func (l *level) pace(rate float64, n int64, now time.Time) float64 {
	if l == nil {
		return rate
	}
	if !l.went.IsZero() {
		l.behind += rate*now.Sub(l.went).Seconds() - float64(n)
		l.behind = min(max(l.behind, 0), rate*levelBehind.Seconds())
	}
	l.went = now
	return rate * (1 + levelAfter*min(1, l.behind/(rate*levelBehind.Seconds()/4)))
}

// steadily returns how long n bytes for p wait, which goes without a window.
func (x *run) steadily(p *peer, n int64) time.Duration {
	site := x.site(p.name)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.eng.spacings.begin(site, x.start, p.spacing.after)
	now := time.Now()
	return x.eng.spacings.slot(site, n, p.level.pace(p.level.rate(p.opening), n, now), time.Hour, now)
}

// levelTo returns the level of what goes to p's site. It needs x.mu, and p's path to be set.
func (x *run) levelTo(p *peer) *level {
	site := x.site(p.name)
	l := x.levels[site]
	if l == nil {
		l = &level{at: 1, most: levelMost, room: max(levelQueue, p.path.link().Time(levelBytes)), since: time.Now()}
		if p.path.held() { // what is more stands before what holds each flow, or is lost there
			l.most = 1
		}
		if x.levels == nil {
			x.levels = make(map[string]*level)
		}
		x.levels[site] = l
	}
	return l
}

// setLevels looks at what goes without a window. others counts the exchanges beside this one by the sites that they send to. It needs x.mu.
func (x *run) setLevels(now time.Time, others map[string]int) {
	for _, l := range x.levels {
		l.queue = math.MaxInt64
	}
	for _, p := range x.peers {
		if !p.steady || p.open == 0 {
			continue
		}
		for _, o := range p.outs {
			if m, ok := o.stream.(measured); ok && o.by == "" {
				p.level.count(&o.counted, m.Stats())
			}
		}
	}
	for site, l := range x.levels {
		l.others = others[site]
		if l.queue < math.MaxInt64 {
			l.look(now)
		}
	}
}

// counted is what a connection had counted when it was looked at last.
type counted struct {
	once       bool
	sent, lost uint64 // packets
}

// count takes in what a connection has counted since it was looked at last.
func (l *level) count(c *counted, st quic.ConnectionStats) {
	if c.once && st.PacketsSent >= c.sent && st.PacketsLost >= c.lost {
		l.sent += st.PacketsSent - c.sent
		l.lost += st.PacketsLost - c.lost
	}
	*c = counted{true, st.PacketsSent, st.PacketsLost}
	if st.MinRTT > 0 {
		l.queue = min(l.queue, max(st.SmoothedRTT, st.LatestRTT)-st.MinRTT)
	}
}
