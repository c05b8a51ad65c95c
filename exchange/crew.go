package exchange

import (
	"math"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Which lanes serve a peer: staff begins with what its path is believed to need, tend adds
// more where losses turn out to hold them all (grow.go).
//
// Where there are several, data travel on lanes from 1 on. Lane 0, which other things
// than exchanges use as well and which is mostly open already, carries them only until
// the first of the others is open: what the rooms of an agent tell each other need
// not wait behind data that losses hold back.

// spareTrips is how many round trips after the first lane the spare one is dialed: data come first.
const spareTrips = 2

// handshakeBytes is about what one end sends to connect: a padded Initial, its certificate
// and acknowledgements. Lanes of one peer connect so far apart that this fits the path.
const handshakeBytes = 4 << 10

// lanesTo returns over how many lanes to begin to send to p, whose path it sets. It needs x.mu.
func (x *run) lanesTo(p *peer) int {
	p.path = x.eng.cfg.Path(p.name)
	p.loses = p.path.Loss >= lateLoss
	if p.opening, p.steady = x.goesSteady(p); p.steady {
		p.level = x.levelTo(p)
		before, of := x.place() // not all of the site at the same instant
		own, _ := x.shareTo(p)
		p.spacing = spacing{after: time.Duration(float64(before) / float64(of) * float64(min(own, leastSlice)) / p.opening * 1e9)}
		return 1
	}
	if p.path.Flows <= 0 && p.path.known() {
		p.path.Flows = x.sharing(p)
		// Where all flows share a queue windows settle among those that are there, and larger ones to begin with only fill it; but for a host that is all but alone.
		if p.path.held() || x.part.like(x.site, p.name, false, 2, 2) == 1 {
			most := p.path.Flows
			if x.part.Collective == plan.Alltoall {
				most *= 2 // more pairs share the way than that only if pairs differ: two hosts in one and in two guess two and four where there are three
			}
			p.path.Flows = x.part.like(x.site, p.name, true, p.path.Flows, most)
		}
	}
	// In an alltoall with relays all links have as much to do as they can carry, and one whose answers wait for a slow one's queue is behind from the start. In an allgather the
	// slow one decides, and is to be full first of all; so it is in an alltoall of two sites, which mostly have as many bytes for each other.
	p.path.yields = x.part.Collective == plan.Alltoall && p.path.hinders() && x.part.busyBack(x.site, p.name, p.path)
	n := p.path.Lanes()
	if x.eng.cfg.Lanes != nil {
		n = min(max(x.eng.cfg.Lanes(p.name), 1), maxLane)
	}
	switch {
	case p.pacer != nil:
	case x.part.Collective == plan.Allgather:
		p.pacer = x.eng.pacers.join(x.site(p.name), p.path, x.part.like(x.site, p.name, false, x.mates(), x.mates()))
	default:
		p.pacer = x.eng.pacers.joinPeer(p.name, p.path, n)
	}
	p.opening, p.spacing = x.opens(p), x.spacingTo(p)
	p.path.spaced = p.spacing.rate > 0
	return n
}

// sharing guesses how many pairs of hosts of this exchange send from this host's site to p's
// at once: as many as if every host of the site did what this one does.
func (x *run) sharing(p *peer) int {
	site := x.site
	there := site(p.name)
	peers, hosts := 0, 0
	for _, name := range x.part.Hosts {
		if site(name) == there {
			hosts++
			if q := x.peers[name]; q != nil && len(q.sends) > 0 {
				peers++
			}
		}
	}
	pairs := x.mates() * max(peers, 1)
	if x.part.Collective == plan.Alltoall && peers < hosts && p.path.known() && p.path.held() {
		pairs = min(pairs, max(fewPairs, int(math.Ceil(morePairs*float64(p.path.link())/float64(p.path.Rate)))))
	}
	return pairs
}

// An alltoall in which a host does not send to all of a site has fewPairs pairs of hosts carry the link there, or morePairs times as many as fill
// it (package wan), and a large site has hosts that are in none.
const (
	fewPairs  = 8
	morePairs = 1.25
)

// mates is how many hosts of the exchange are at this host's site, itself included.
func (x *run) mates() int {
	_, n := x.place()
	return n
}

// place returns how many hosts of this host's site come before it in the exchange, and how many there are.
func (x *run) place() (before, of int) { return x.sites.before, max(x.sites.mates, 1) }

// runSites are the sites of a run's hosts as they were when it began: each lane asks for them, and with many hosts whoever knows them would be asked thousands of
// times before the first byte.
type runSites struct {
	of            map[string]string
	to            map[string]bool // those that this host sends to
	before, mates int             // hosts of this host's site: those before it in the exchange, and all
	number        int             // of sites
}

func sitesOf(hosts []string, self string, site func(host string) string) runSites {
	s := runSites{of: make(map[string]string, len(hosts))}
	home, seen := site(self), make(map[string]bool)
	for _, h := range hosts {
		s.of[h] = site(h)
		seen[s.of[h]] = true
		if h == self {
			s.before = s.mates
		}
		if s.of[h] == home {
			s.mates++
		}
	}
	s.number = len(seen)
	return s
}

// sendsTo notes the sites that part has this host send to.
func (s *runSites) sendsTo(part *Part) {
	s.to = make(map[string]bool)
	for i := range part.Sends {
		s.to[s.of[part.Hosts[part.Sends[i].Dst]]] = true
	}
}

// site names what host shares its links with, see [Config.Site].
func (x *run) site(host string) string {
	if site, ok := x.sites.of[host]; ok {
		return site
	}
	return x.eng.cfg.Site(host) // one by way of which others go
}

// staff has p served by n lanes, if they are not yet. It needs x.mu.
func (x *run) staff(p *peer, n int) {
	from, to := 0, 0 // serve [from, to)
	switch {
	case p.lanes == 0 && n == 1:
		to = 1
		if p.path.Lossy() {
			p.spare = x.addSpare(p, spareTrips*p.path.RTT)
		}
	case p.lanes == 0:
		to = n + 1
	case p.lanes == 1 && p.spare:
		from, to = 2, n+1
	case p.lanes == 1:
		from, to = 1, n+1
	default:
		from, to = p.lanes+1, n+1
	}
	var gap time.Duration
	if p.path.known() {
		gap = time.Duration(min(handshakeBytes/p.path.part()*1e9, 1e9))
	}
	for i := from; i < to; i++ {
		m, delay := x.meter(p, i), time.Duration(max(i-max(from, 1), 0))*gap
		x.writers.Go(func() { x.lane(p, i, delay, m) })
	}
	p.lanes = n
	p.win.serve(n, p.path, x.part.Chunk)
}

// addSpare has a spare lane beside the one that serves p, which connects after delay, and reports whether p may have one: where a pacer keeps its pair to
// a part of the link, or a window all its lanes. Where one flow fills the link a second one overflows its queue, so it has none from the start. But where
// a single loss before the run has ended slow start at a quarter of what the link holds, the one lane grows by a packet in a round trip (TestEarlyLoss). It needs x.mu.
func (x *run) addSpare(p *peer, delay time.Duration) bool {
	if p.pacer == nil && p.win == nil || x.eng.cfg.Lanes != nil {
		return false
	}
	m := x.meter(p, 1)
	delay += p.pacer.slot(handshakeBytes, time.Now())
	x.writers.Go(func() { x.lane(p, 1, delay, m) })
	return true
}

// short reports whether losses have left the one lane to a peer over p a congestion window that holds less than the pair's part of p takes until it is
// acknowledged. One is enough: it ends slow start at seven tenths of the window, which from then on grows by a packet in a round trip. The map need not know
// yet that losses hold a flow there. Acknowledgements that wait behind what comes the other way make it worse.
func (c crowd) short(p Path) bool {
	return c.lanes == 1 && c.lost > 0 && c.rtt > 0 && float64(c.window) < p.part()*(c.rtt+max(c.queue-c.ahead, 0)).Seconds()
}

// opened notes that s is lane n to p, by way of another host unless by is empty.
func (x *run) opened(p *peer, n int, s Stream, by string, m *meter) *outLane {
	x.mu.Lock()
	path := p.path // which others look at, and learn of, meanwhile
	x.mu.Unlock()
	path = path.over(s) // asks the connection: not under the lock
	var lost uint64
	if m, ok := s.(measured); ok && n == 0 {
		lost = m.Stats().PacketsLost
	}
	x.mu.Lock()
	defer x.unlock()
	if n == 0 {
		p.lost = lost
	}
	if p.win == nil || p.by != by && len(p.outs) == 0 { // another way has other times
		x.eng.windows.leave(p.win)
		p.win = x.tapOf(p, path, by)
	}
	p.by = by
	l := &outLane{n: n, stream: s, by: by, win: p.win, cond: p.cond, meter: m, heard: time.Now()}
	if by == "" {
		l.pacer = p.pacer
	}
	p.outs = append(p.outs, l)
	return l
}

// closed ends what opened began.
func (x *run) closed(p *peer, l *outLane) {
	x.mu.Lock()
	defer x.unlock()
	for i, o := range p.outs {
		if o == l {
			p.outs = append(p.outs[:i], p.outs[i+1:]...)
			break
		}
	}
	l.win.cancel(l)
	l.win.reply(l, l.sent-l.got, math.MaxInt64, math.MaxInt64) // nobody will answer
	p.cond.Broadcast()                                         // lane 0 may be needed again, and there is room
}

// rests reports whether l is the spare lane and has nothing to do: its peer is served by one lane over a path that loses packets. Then
// nothing is sent there while more waits for the pacer than it lets go, until all was given to a lane. What losses leave of that lane's congestion window
// is too little for what is left at the end: 30 KB took a second so. One that no pacer keeps to a part of the link rests while other runs use the way: two lanes of one would take twice the part of
// one of theirs. It needs run.mu.
func (p *peer) rests(l *outLane) bool {
	if !p.spare || p.lanes > 1 || l.n != 1 {
		return false
	}
	if p.pacer == nil && p.win != nil && !p.win.alone() {
		return true // TestGroupsOfSizes
	}
	return !p.short && !p.pacer.idle(time.Now()) && !p.allOut()
}

// spares reports whether l leaves the data to other lanes, of which one at least is answered. It needs run.mu.
func (p *peer) spares(l *outLane) bool {
	if l.n > 0 || p.lanes == 1 {
		return false
	}
	now := time.Now()
	for _, o := range p.outs {
		if o.n > 0 && !o.broken && !o.mute(now, p.patience()) {
			return true
		}
	}
	return false
}

// leastMute is how long a lane is not answered at least before lane 0 takes over, and mutePatience the same in patiences. A receiver answers a long chunk
// every tellEvery.
const (
	leastMute    = 500 * time.Millisecond
	mutePatience = 4
)

// mute reports whether nothing has come back on l for long, though something should have. It needs run.mu.
func (l *outLane) mute(now time.Time, patience time.Duration) bool {
	most := max(leastMute, mutePatience*patience)
	return len(l.flights) > 0 && now.Sub(l.flights[0].from) > most && now.Sub(l.heard) > most
}
