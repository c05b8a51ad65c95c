package exchange

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// What goes without windows and answers, and how fast: run.lanesTo asks for each peer, level.go corrects the rate under way. The rule is our own, as is what it
// gains (docs/design/lanes.md, "Brief operations have no windows" and what follows).

// briefBytes is what all of a site send to another in an operation at most, in bytes, for all of it to go at once: 28 full packets, where a slow link's queue has room for 64.
const briefBytes = linkQueue / 4

// briefQueue is how long what goes at once may stand in a queue. QUIC's probe timeout leaves as much beside a round trip (the longest delay of an acknowledgement, RFC 9002, §6.2.1) and sends again what is behind that: of 16 KiB each way that
// went at once over 1 Mbit/s and 80 ms five of sixteen pairs of hosts sent all twice.
const briefQueue = 25 * time.Millisecond

// maxHaste is how many times its part of a link a host sends at at most.
const maxHaste = 100

// goesSteady reports whether what goes to p's site goes without a window, steadily at this host's part of what the link carries, and how fast that is, in bytes a second. Then nobody asks how much has
// arrived: a packet that asks, one that greets, an answer to each slice and acknowledgements of them all are an eighth of what an alltoall of 2 KiB between four hosts
// and two puts on their link, and windows that wait for answers leave it idle now and then. So goes what is brief, which the queue of the link has room for; and what goes over a link that is packed, on which windows could hold back nothing; for both a link on which one lane does counts as what such lanes carry. A level
// corrects the rate under way (level.go). Not beside another operation, whose packets the queue is to hold as well, nor where a packet is likely to be lost on the way, as what is late is found by its answers, nor to peers beside the plan's, who get what others were to deliver, as answers are what tells that it has come, nor
// where somebody else says how many lanes there are. It needs x.mu, and p's path to be set.
func (x *run) goesSteady(p *peer) (rate float64, ok bool) {
	if !x.alone || x.peers[p.name] != p || !p.path.known() || x.eng.cfg.Lanes != nil {
		return 0, false
	}
	own, share := x.shareTo(p)
	if own == 0 || !(share > 0) {
		return 0, false
	}
	all, link := float64(own)/share, p.path.link()
	one := x.oneDoes(p, all, share)
	if one > 0 {
		link = one
	}
	if brief := all <= briefBytes && (one > 0 || !x.oneHolds(p, own)) && p.path.risk(all) <= steadyRisk; !brief && !x.packs(p, all, link) {
		return 0, false
	}
	rate = share * float64(link)
	takes := all / float64(link) // seconds of the link
	queue := briefQueue
	if all > briefBytes {
		queue = min(queue, link.Time(briefBytes/2))
	}
	return rate * takes / max(takes-queue.Seconds(), takes/maxHaste), true
}

// oneHolds reports whether the network holds each flow to p, a lane for each pair of hosts does not fill the link, and own bytes over one would be in it for longer than a queue: of 32 KiB between one
// host of each site, at an eighth of the link a flow, 0.31 s and not 0.17. Not if it is losses that hold flows: they do so in the long run only.
func (x *run) oneHolds(p *peer, own int64) bool {
	return p.path.held() && !p.path.Lossy() && float64(x.sharing(p))*float64(p.path.Rate) < float64(p.path.link()) && p.path.Rate.Time(own) > briefQueue
}

// oneShare is how long all may take that goes over one lane for each pair of hosts, as a share of how long the way back is busy.
const oneShare = 0.75

// oneDoes returns what a lane for each pair of hosts carries of the link to p's site, in bytes a second, where the network holds each flow and that is less than the link carries, and yet all
// that crosses it is through well before what comes back over a slower one is; else 0. Then more lanes gain nothing, and what answers them goes before the data that all wait for: of alltoalls of 4 KiB over
// 17.5 Mbit/s, 3.3 a flow, and back over 3.7 that and other small packets were a ninth of the bytes there. Only between two sites: others may wait for what is to be passed on. It needs x.mu.
func (x *run) oneDoes(p *peer, all, share float64) netmap.BytesPerSec {
	q := p.path
	if !q.held() || q.Lossy() || q.Back <= 0 || x.sites.number != 2 {
		return 0
	}
	got := x.part.gotFrom(func(src string) bool { return x.site(src) == x.site(p.name) })
	back := int64(float64(got) / share) // as if this host's part of what comes were that of what goes
	pairs := x.sharing(p)
	one := netmap.BytesPerSec(x.part.like(x.site, p.name, true, pairs, pairs)) * q.Rate
	if one >= q.link() || all > oneShare*q.Back.Time(back).Seconds()*float64(one) {
		return 0
	}
	return one
}

// steadyTime is what a link may need for what goes steadily over it: nobody answers there, and of longer operations answers are what tells that a link falls under way while others can still help.
const steadyTime = paceLead + paceSpan + longWay

// steadyTrips is how many round trips what goes steadily may take of the link where windows could hold back something: answers that come back while the last of it leaves say little.
const steadyTrips = 2

// steadyFlight is how many bytes a pair of hosts may then have under way in a round trip: congestion windows begin with as much. A pair that has a far link to itself has spare lanes for that (TestEarlyLoss).
const steadyFlight = 16 * leastSlice

// steadyRisk is how likely a packet of what is brief may be lost: whoever waits for that one waits for two round trips or more.
const steadyRisk = 0.1

// steadyFlow is how much of what the network lets one flow have a pair of hosts is to need at most: plans fill it, and readings differ by a few per cent.
const steadyFlow = 1.03

// crowdedFor is for how long exchanges that ran beside each other are taken to do so again: who begins first is alone for a moment only.
const crowdedFor = 10 * time.Second

// packs reports whether windows would hold back nothing on the link to p's site, which all bytes cross, and it is known what that carries and that it loses nothing: the least ones of all pairs of hosts hold more than it does in a round trip, all has left
// before much is heard of it, or the network holds each flow to more than what any pair has of link, which is what all are to use of it. It needs x.mu.
func (x *run) packs(p *peer, all float64, link netmap.BytesPerSec) bool {
	q := p.path
	switch {
	case x.crowded || q.AtLeast || q.Blind || q.Link > 0 || q.Lossy() || link.Time(int64(all)) > steadyTime:
		return false
	case !q.held():
		if q.capacity().Time(int64(x.sharing(p))*leastSlices*leastSlice) >= q.RTT {
			return true
		}
		return q.link().Time(int64(all)) <= steadyTrips*q.RTT && float64(x.most(p))/all*float64(q.link())*q.RTT.Seconds() <= steadyFlight
	}
	return float64(x.most(p))/all*float64(link) <= steadyFlow*float64(q.Rate)
}

// most returns the bytes of the host at p's site that gets the most from this one. It needs x.mu.
func (x *run) most(p *peer) (most int64) {
	for name, to := range x.peers {
		if len(to.sends) > 0 && x.site(name) == x.site(p.name) {
			most = max(most, x.part.sentTo(func(dst string) bool { return dst == name }))
		}
	}
	return most
}
