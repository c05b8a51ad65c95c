package exchange

import (
	"cmp"
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
	// pacerDrain is in how many round trips a queue is to be gone that is longer than it should be.
	pacerDrain = 4
	// pacerDown is the least of its rate that one round leaves, if not the one before said the same, pacerFloor what is left of the believed one in the end: from there
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

// met is what a slice that was sent then met on its way: it was late by so much at least.
type met struct {
	sent time.Time
	late time.Duration
}

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
// windows. While nothing waits the rate grows, if it is used. Where something does, the queue is full of what was sent too fast: how it grew from round to round at the
// rates that were held says at which rate it is left by this host's bytes, and that is the new rate, but for what
// brings the queue to three quarters of target in a few round trips. What is under way is counted as arrived: a host that came down until the
// queue was seen to be short would come down twice, with all others, and leave the link idle.
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
	drain          time.Duration // in which a queue is to be gone
	own            bool          // the queue is this pacer's alone
	unsure         bool          // the link may carry far more than is believed: no queue has been met yet
	next           time.Time     // when the next slice may go

	begin  time.Time     // since when the rate is what it is; zero: no round has begun
	was    float64       // the one before
	late   []met         // the slices of this round; reused
	sent   int64         // bytes that were let go
	since  time.Time     // since then
	at     time.Time     // when the slices of the last round were sent, in the mean
	queue  time.Duration // that they met
	cut    bool          // and that was far too long
	ahead  time.Duration // queue that was expected when the rate came down
	longer int           // slices in a row that met a far longer one
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
	s := a.enter(paced{name: site}, p, p.partOf(hosts))
	s.target, s.drain = max(p.link().Time(pacerQueue), p.RTT/16, 2*time.Millisecond), pacerDrain*s.base
	s.unsure = s.unsure || (p.AtLeast || p.Link > 0) && s.at.IsZero()
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
	s.drain, s.own = peerDrain*s.base, p.Loss <= leastLoss
	s.unsure = s.unsure || p.Link > 0 && s.at.IsZero() // ports held who looked for what the link carries
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
	if s.begin.IsZero() {
		s.begin, s.since = now, now
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

// heard notes that a slice that was sent then was late by so much at least, because of queues ahead.
func (s *pacer) heard(late time.Duration, sent, now time.Time) {
	if s == nil {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.begin.IsZero() {
		return
	}
	if sent.Before(s.begin) { // at another rate
		s.worse(late, now)
		return
	}
	if len(s.late) == pacerMemory {
		s.late = slices.Delete(s.late, 0, 1)
	}
	s.late = append(s.late, met{sent, late})
	switch {
	case len(s.late) < leastSlices:
	case sent.Sub(s.late[0].sent) >= s.base:
		s.judge(s.late, now)
	case late > 2*s.target && now.Sub(s.since) >= s.base: // a long queue is not waited for
		s.judge(s.late[len(s.late)-leastSlices:], now)
	}
}

// worse looks at what was sent before the rate came down last. If it is late by far more than was foreseen then, the link has fallen, and
// the rate comes down again before the next round ends.
func (s *pacer) worse(late time.Duration, now time.Time) {
	if late < s.ahead+2*s.target+s.base {
		s.longer = 0
		return
	}
	if s.longer++; s.longer < leastSlices || now.Sub(s.since) < s.base {
		return
	}
	s.longer, s.ahead = 0, late
	s.rate = max(s.rate*pacerDown, min(s.rate, pacerFloor*s.believed))
	s.begin, s.since, s.sent = now, now, 0
	s.at, s.late = time.Time{}, s.late[:0]
}

// judge ends a round, whose slices were sent at one rate, and sets the next rate.
func (s *pacer) judge(round []met, now time.Time) {
	at := s.begin // when they were sent, in the mean
	for _, m := range round {
		at = at.Add(m.sent.Sub(s.begin) / time.Duration(len(round)))
	}
	// Of lossy links some are late because they waited for a retransmission, on others a peer's clock
	// is compared with a slice that met a queue itself.
	slices.SortFunc(round, func(a, b met) int { return cmp.Compare(a.late, b.late) })
	before, queue := s.rate, round[len(round)/4].late
	used := float64(s.sent) / (s.rate * now.Sub(s.since).Seconds())
	up := pacerNear
	if s.rate < 0.9*s.believed || s.unsure {
		up = pacerUp
	}
	cut := s.cut
	s.cut, s.ahead = false, queue
	switch {
	case queue > s.target*5/4 || queue > s.target/4 && used >= pacerUsed && !s.own:
		s.unsure = false
		leaves := s.leaves(at, queue)
		least := pacerDown * s.rate
		if cut { // once, it may have been repairs of losses; twice, it is the link
			least = pacerDown * min(leaves, s.rate)
		}
		ahead := queue.Seconds() + now.Sub(at).Seconds()*(s.rate/leaves-1) // with what was sent meanwhile
		to := leaves * (1 + (s.target.Seconds()*3/4-ahead)/s.drain.Seconds())
		s.ahead = max(queue, time.Duration(ahead*1e9))
		s.cut = to < pacerDown*s.rate
		s.rate = min(max(to, least, min(s.rate, pacerFloor*s.believed)), s.rate*up, pacerMost*s.believed)
	case used < pacerUsed: // something else holds the lanes back, or nothing
		s.rate = max(s.rate/pacerNear, min(s.rate, s.believed))
	case queue < s.target/2: // of a peer's own
		s.rate = min(s.rate*up, pacerMost*s.believed)
	}
	if s.rate != before {
		s.begin, s.was = now, before
	}
	s.at, s.queue = at, queue
	s.late, s.sent, s.since = s.late[:0], 0, now
}

// leaves returns at what rate the queue is left by what this host sent, in bytes a second, if slices sent at at met queue
// there: what was sent since the last round's slices took as long as passed and the queue grew by.
func (s *pacer) leaves(at time.Time, queue time.Duration) float64 {
	if s.at.IsZero() {
		return s.rate
	}
	bytes := s.rate * at.Sub(s.at).Seconds()
	if s.at.Before(s.begin) {
		bytes = s.rate*at.Sub(s.begin).Seconds() + s.was*s.begin.Sub(s.at).Seconds()
	}
	took := at.Sub(s.at) + queue - s.queue
	if at.Sub(s.at) < s.base/2 || took <= 0 {
		return s.rate // a repair of a loss would be all that is seen
	}
	return bytes / took.Seconds()
}
