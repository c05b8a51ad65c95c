package exchange

import (
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// pacerSlack is how far behind its time what is sent may be and catch up: timers are late. What would wait for
	// less goes at once.
	pacerSlack = time.Millisecond
	// pacerQueue is the queue of a link, in bytes, at which all who send over it aim together: a quarter of what a
	// slow link's has room for.
	pacerQueue = linkQueue / 4
	// pacerFirst is the part of the believed rate, which is one of payload in one direction, at which it begins: headers are
	// 5 % of it, and acknowledgements and answers of what comes the other way up to 10 %.
	pacerFirst = 0.9
	// pacerUp and pacerNear are what a rate grows by when the queue stays short: below what the map says, and from there on.
	pacerUp, pacerNear = 1.25, 1.05
	// pacerUsed is the part of the rate that must have been used for that.
	pacerUsed = 0.85
	// pacerDown is the least of its rate that is left in one step, pacerFloor what is left of the believed one in the end: from there
	// on windows are what holds back.
	pacerDown, pacerFloor = 0.75, 1. / 8
	// pacerMemory bounds the slices of a round that are looked at.
	pacerMemory = 64
	// pacerMost is how many times the believed rate it becomes at most.
	pacerMost = 64
	// peerQueue is pacerQueue of a single peer's, and peerDrain in how many round trips a queue is to be gone there: it is mostly that of the
	// peer's own flows, which may last. Of both directions that stand still for 10 kB each, round trips and what windows must hold would double.
	peerQueue = 6000
	peerDrain = 16
)

// pacers are those of all runs of an engine.
type pacers struct {
	mu sync.Mutex // guards of, and all pacers; taken under run.mu
	of map[paced]*pacer
}

// paced is where a pacer's bytes go: to a site, or to one host.
type paced struct {
	name string
	host bool
}

// A pacer spreads what this host sends to one site, over all peers, lanes and runs, evenly over time: at its part of what the
// way there carries. Of an alltoall, in which a few pairs of hosts carry each link, it is of one peer: the queue ahead that each of
// them sees may be that of its own flow, which the network holds, and says nothing of the others.
//
// Why it is here beside windows: those of 64 pairs of hosts that begin together let out 500 packets at once, and each connection of
// quic-go a burst of ten. A queue of 166 packets loses three in five of them; the link idles while that is
// found out, and what was lost comes a round trip or two late.
//
// The rate is that of the map at first. Where the map is wrong what slices wait in the queue ahead says so, as for
// windows: the rate grows while it is used and the queue is short, and shrinks when that is long.
//
// Only where something holds each flow is there a pacer (run.lanesTo): where one flow fills the path, windows alone keep its queue short, and they
// follow a link that falls, or a second exchange, sooner.
type pacer struct {
	all   *pacers
	to    paced
	users int // peers of runs

	believed, rate float64       // bytes a second
	base           time.Duration // round trip without queues
	target         time.Duration // queue
	drain          time.Duration // in which a queue is to be gone; zero: at once
	next           time.Time     // when the next slice may go

	late  []time.Duration // of the slices of this round; reused
	begin time.Time       // of the round; zero: it has none
	sent  int64           // bytes that were let go
	since time.Time       // since then
}

// join returns the pacer to site, over p, which hosts hosts like this one share; nil if p does not say enough. Each join is
// ended by leave.
func (a *pacers) join(site string, p Path, hosts int) *pacer {
	// A lone sender's windows and lanes find its rate sooner: 20 Mbit/s with 1 % loss was filled to 94 % by them, to 83 % at this pace.
	if !p.known() || !p.held() || hosts < 2 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.enter(paced{name: site}, p, float64(p.capacity())/float64(hosts))
	s.target = max(p.capacity().Time(pacerQueue), p.RTT/16, 2*time.Millisecond)
	return s
}

// joinPeer is join for what goes to one host over lanes lanes; p.Flows pairs of hosts share the way.
func (a *pacers) joinPeer(host string, p Path, lanes int) *pacer {
	if !p.known() || !p.held() || p.Flows < 2 {
		return nil
	}
	rate := p.part()
	if p.Loss <= leastLoss {
		rate = min(rate, float64(p.Rate)*float64(max(lanes, 1)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.enter(paced{name: host, host: true}, p, rate)
	s.target = max(netmap.BytesPerSec(s.believed).Time(peerQueue), p.RTT/16, 2*time.Millisecond)
	s.drain = peerDrain * s.base
	return s
}

// enter returns the pacer of to with one more user, over p of which this host's part is rate bytes a second. It needs a.mu.
func (a *pacers) enter(to paced, p Path, rate float64) *pacer {
	s := a.of[to]
	if s == nil {
		if a.of == nil {
			a.of = make(map[paced]*pacer)
		}
		s = &pacer{all: a, to: to, believed: rate, rate: pacerFirst * rate, base: p.RTT}
		a.of[to] = s
	}
	if rate > s.believed { // another pair of hosts knows more, or fewer share the way in another run
		s.rate *= rate / s.believed
		s.believed = rate
	}
	s.users++
	return s
}

// leave ends a join. The nil pacer does nothing.
func (s *pacer) leave() {
	if s == nil {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(s.all.of, s.to)
	}
}

// slot returns how long n bytes wait, from now, before they may go. The nil pacer lets everything go.
func (s *pacer) slot(n int64, now time.Time) time.Duration {
	if s == nil {
		return 0
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if least := now.Add(-pacerSlack); s.next.Before(least) {
		s.next = least
	}
	wait := s.next.Sub(now)
	s.sent += n
	s.next = s.next.Add(time.Duration(float64(n) / s.rate * 1e9))
	if wait < pacerSlack {
		return 0
	}
	return wait
}

// idle reports whether nobody waits for s.
func (s *pacer) idle(now time.Time) bool {
	if s == nil {
		return false
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return !s.next.After(now)
}

// heard notes that slices were late by so much at least, because of queues ahead.
func (s *pacer) heard(late time.Duration, now time.Time) {
	if s == nil {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.begin.IsZero() {
		s.begin, s.sent, s.since = now, 0, now
	}
	if now.Before(s.begin) {
		return // sent before the rate was what it is
	}
	if len(s.late) < pacerMemory {
		s.late = append(s.late, late)
	}
	if now.Sub(s.begin) < s.base || len(s.late) < leastSlices {
		return
	}
	// Of lossy links some are late because they waited for a retransmission, on others a peer's clock
	// is compared with a slice that met a queue itself.
	slices.Sort(s.late)
	before, queue := s.rate, s.late[len(s.late)/4]
	switch {
	case queue > s.target*5/4: // what it has sent meanwhile comes on top
		drain := max(queue+s.base, s.drain)
		s.rate = max(s.rate*max(pacerDown, 1-float64(queue-s.target/2)/float64(drain)), min(s.rate, pacerFloor*s.believed))
	case float64(s.sent) < pacerUsed*s.rate*now.Sub(s.since).Seconds(): // something else holds the lanes back, or nothing
		s.rate = max(s.rate/pacerNear, min(s.rate, s.believed))
	case queue < s.target/2:
		up := pacerNear
		if s.rate < 0.9*s.believed {
			up = pacerUp
		}
		s.rate = min(s.rate*up, pacerMost*s.believed)
	}
	s.begin, s.late, s.sent, s.since = now, s.late[:0], 0, now
	if s.rate != before {
		s.begin = now.Add(s.base + queue)
	}
}
