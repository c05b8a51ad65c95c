package exchange

import (
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

const (
	// openingShare is the part of its part of a path, in payload, at which a host begins to send: headers are the rest.
	openingShare = 0.9
	// spacingShare is the same of what goes at a spacing: believed capacities are of payload, mostly, and a link on which now and then somebody has nothing to send is full
	// only if the others send more than their part. What is too much stands in its queue, and windows see to that.
	spacingShare = 1.05
	// mostSpacing bounds what a slice waits.
	mostSpacing = time.Second
	// unmet is for how long slices must have met no queue for a link to be taken to carry more than is believed, and metSlices how many must stand ahead of the quickest of a
	// round for there to be one: a single one may just have come.
	unmet     = time.Second
	metSlices = 2
	// maxSpacings bounds the sites that are remembered.
	maxSpacings = 1024
)

// spacings spread what all runs send to a site over time: first windows, which go out before a peer has answered for the first time, and over slow links whatever goes there.
//
// Why it is here: first windows are bursts, of all pairs of hosts and all groups at the same instant. They overran the queue of the link, and
// with the windows that quic-go was left with, the link was 55 to 80 % busy for the next ten round trips, in which the reverse
// direction was full. On paths on which something holds each flow the [pacer] does this, and goes on.
//
// And windows hold a few slices at least. Of five pairs of hosts over 3 Mbit/s these are 55 kB, a queue of 140 ms where a round trip takes 14. What comes the other way is answered behind that queue, out of
// windows that are as small, and its link is half idle (docs/design/lanes.md). Pacing is old (Aggarwal, Savage & Anderson, Understanding the Performance of TCP Pacing, INFOCOM 2000); at which
// rate and until when are our own.
type spacings struct {
	mu   sync.Mutex // guards next; taken under run.mu
	next map[string]time.Time
}

// slot returns how long n bytes to site wait, from now, at rate bytes a second; most at the most. Who is late by up to pacerSlack may catch up, for timers are, and what would wait for less goes at once.
func (o *spacings) slot(site string, n int64, rate float64, most time.Duration, now time.Time) time.Duration {
	if !(rate > 0) || most <= 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bound()
	at := o.turn(site, now)
	wait := min(at.Sub(now), most)
	o.next[site] = now.Add(wait + time.Duration(min(float64(n)/rate*1e9, float64(most))))
	if wait < pacerSlack {
		return 0
	}
	return wait
}

// bound makes room for one site more. It needs o.mu.
func (o *spacings) bound() {
	if o.next == nil || len(o.next) >= maxSpacings {
		o.next = make(map[string]time.Time)
	}
}

// turn returns when what goes to site next may go: somewhat before now, at the earliest, for who is late. It needs o.mu.
func (o *spacings) turn(site string, now time.Time) time.Time {
	at, least := o.next[site], now.Add(-pacerSlack)
	if at.Before(least) {
		return least
	}
	return at
}

// begin has the first of what goes to site after start wait until after has passed since.
func (o *spacings) begin(site string, start time.Time, after time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bound()
	if o.next[site].Before(start) {
		o.next[site] = start.Add(after - pacerSlack)
	}
}

// answered has what goes to site at s wait for the answers to n bytes that came from there, too.
func (o *spacings) answered(site string, n int64, s spacing, now time.Time) {
	if s.rate <= 0 || s.answers <= 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.next[site]; !ok {
		return // nothing has gone there
	}
	o.next[site] = o.turn(site, now).Add(time.Duration(min(s.answers*float64(n)/s.rate*1e9, float64(mostSpacing))))
}

// A spacing is how fast this host sends to the site of a peer. The zero spacing is none.
type spacing struct {
	rate float64 // bytes a second
	// answers is how much of that the answers to what comes from there take, by its bytes.
	answers float64
	after   time.Duration // from the beginning of the exchange to the first slice
	ends    time.Time     // when the link should be through with the plan: who is behind then may have it for himself
	met     time.Time     // when slices met a queue last, or began to go
	last    time.Time     // when the last one went
}

// over reports whether s has ended: the link should be through, or carries more than was believed. The quickest slice of the last round was late by so much.
func (s *spacing) over(p Path, late time.Duration, now time.Time) bool {
	if p.queued(late) || now.Sub(s.last) >= unmet/2 {
		s.met = now
	}
	s.last = now
	if now.Before(s.ends) && now.Sub(s.met) < unmet {
		return false
	}
	s.rate = 0
	return true
}

// queued reports whether slices that were so late have met a queue.
func (p Path) queued(late time.Duration) bool {
	return late >= p.capacity().Time(int64(min(p.Flows, metSlices))*leastSlice)
}

// spacingTo returns the spacing of what goes to p, whose path is set: of what the link carries this host has as much as it has of the bytes that cross it. Where nobody has looked for more than it was seen to carry there is none,
// nor where ports held whoever did, so that the link may carry more. It needs x.mu.
func (x *run) spacingTo(p *peer) spacing {
	if !p.path.crowded() || p.path.AtLeast || p.path.Link > 0 {
		return spacing{}
	}
	site := x.site
	own, share := x.shareTo(p)
	rate := float64(p.path.capacity()) * share
	if own == 0 || !(rate > 0) {
		return spacing{}
	}
	answers, after := 0., time.Duration(0)
	if before, of := x.place(); x.part.Collective == plan.Alltoall && p.path.capacity().Time(int64(of)*leastSlice) <= p.path.RTT*3/2 {
		// Hosts with as much to send there go on as they begin: a slice of each at the same instant, again and again, for which short queues have no room. Where
		// the slices take much longer than a round trip, waiting costs more than that (docs/design/lanes.md).
		after = time.Duration(min(float64(before)/float64(of)*leastSlice/rate*1e9, float64(mostSpacing)))
	}
	if x.part.Collective == plan.Alltoall && p.path.Back >= slowBack*p.path.capacity() && x.part.busyBack(site, p.name, p.path) {
		// In an alltoall with relays all links have as much to do as they can carry, and over a far slower way back answers are much of what crosses it. In an
		// allgather the slow link decides, and so it does in an alltoall of two sites, which mostly have as many bytes for each other.
		answers = plan.AnswerShare
	}
	times := spacingShare
	if p.path.Blind {
		times = 1 // see [blinds]
	}
	return spacing{answers: answers, after: after, rate: times * rate, ends: x.start.Add(time.Duration(min(float64(own)/rate*1e9, float64(time.Hour))))}
}

// opens returns how fast first windows to p's site go, in bytes a second: at this host's part of the path, which is more than that of one of as many as there are hosts here
// where it has more to send there. One that sends for all of its site has all of it. It needs x.mu, and p's path to be set.
func (x *run) opens(p *peer) float64 {
	if !p.path.known() {
		return 0
	}
	_, share := x.shareTo(p)
	return openingShare * min(max(share, 1/float64(x.mates()))*float64(p.path.link()), float64(p.path.capacity()))
}

// shareTo returns how many bytes this host sends to p's site, and what share that is of all that its site sends there.
func (x *run) shareTo(p *peer) (own int64, share float64) {
	site := x.site
	own = x.part.sentTo(func(dst string) bool { return site(dst) == site(p.name) })
	return own, x.part.share(site, p.name, own, x.mates())
}

// spaced returns how long n bytes wait for which l, a lane to p, has room. It needs x.mu.
func (x *run) spaced(p *peer, l *outLane, n int64, now time.Time) time.Duration {
	_, late := l.win.state()
	if l.doubled {
		n *= 2
	}
	switch site := x.site(p.name); {
	case l.pacer != nil:
		return l.pacer.slot(n, now)
	case p.spacing.rate > 0 && l.by == "" && p.path.Blind && now.Before(p.spacing.ends):
		x.eng.spacings.begin(site, x.start, p.spacing.after)
		level := x.eng.blinds.level(site, p.path, p.path.queued(late), now)
		return x.eng.spacings.slot(site, n, level*p.spacing.rate, mostSpacing, now)
	case p.spacing.rate > 0 && l.by == "" && !p.spacing.over(p.path, late, now):
		x.eng.spacings.begin(site, x.start, p.spacing.after)
		return x.eng.spacings.slot(site, n, p.spacing.rate, mostSpacing, now)
	case l.win.fresh():
		// No longer than a round trip: by then the peer has answered.
		return x.eng.spacings.slot(site, n, p.opening, p.path.RTT, now)
	}
	return 0
}
