package probe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A longProbe is one that is due.
type longProbe struct {
	kind Kind
	peer Peer
	rate netmap.BytesPerSec // of the link, as trains read it
	rtt  time.Duration
	held netmap.BytesPerSec // what losses should leave of a flow; 0 unknown
	one  lanePoint          // of a scheduled search: what is known of one lane,
	line float64            // and of the link; 0 unknown
	want float64            // relative standard error that is good enough where losses decide; 0: that of bulkOptions

	glance bool // see glance.go
	joint  bool // see joint.go; then held is what a pair gets over lanes,
	again  bool // and this is the second one, since some hosts were busy
	lanes  int
}

// firstSpread is how sure the first bulk probes of a link are to be: the losses that later ones meet count with theirs, and in a young grid many
// links wait for the same hosts. At 1 Mbit/s and 2 % lost it takes 8 s instead of 30.
const firstSpread = 0.10

// cost returns how many bytes a long probe takes, about.
func (l longProbe) cost() int64 {
	c := max(bulkCost(l.rate, l.rtt), leastBulk)
	if held := int64(float64(l.held) * maxBulkTime.Seconds()); held > 0 && l.kind == KindBandwidth {
		c = min(c, max(held, leastBulk)) // a fat path that loses packets is not filled: the time is up before
	}
	switch l.kind {
	case KindCapacity:
		return min(c, maxBulkBytes/capacityCost) * capacityCost
	case KindLogP:
		return min(int64(float64(l.rate)*logpTime.Seconds()/2), logpBytes/2)
	}
	return min(c, maxBulkBytes)
}

// takes returns how long a bulk probe takes that fills the link, about: strangers may share it. Of a search nobody knows.
func (l longProbe) takes() time.Duration {
	if l.kind != KindBandwidth {
		return 0
	}
	return l.rate.Time(l.cost()) + bulkPath{packet: userPayload, line: float64(l.rate)}.sharedTime()
}

// doLong does a long probe under a lease, where it leaves the site.
func (p *Prober) doLong(ctx context.Context, l longProbe) error {
	if l.glance {
		return p.glance(ctx, l)
	}
	if l.joint {
		return p.joint(ctx, l)
	}
	cost := l.cost()
	if p.cfg.HourlyCap > 0 && cost > p.cfg.HourlyCap/4 {
		// Part of a bulk transfer says something, part of a LogP session nothing.
		if l.kind == KindLogP {
			return fmt.Errorf("logp of %d bytes: more than a quarter of the %d that are allowed in an hour", cost, p.cfg.HourlyCap)
		}
		cost = p.cfg.HourlyCap / 4
	}
	// A quarter of the cap is left for trains, which see changes.
	if err := p.capped(cost + max(p.cfg.HourlyCap/4, 0)); err != nil {
		return err
	}
	give, u := func(int64, netmap.BytesPerSec) {}, p.longUse(l)
	if site := l.peer.site(); site != p.cfg.Self.site() {
		var err error
		if give, err = p.lease(ctx, site, request{use: u, cost: cost}); err != nil {
			return err
		}
	}
	if u == first {
		l.want = firstSpread
	}
	bytes, _, err := p.long(ctx, l, p.most(l, u, cost), nil)
	give(bytes, 0)
	return err
}

// most returns how many bytes a bulk probe may take. Where the link is full it ends by itself,
// after its cost about. Where losses decide, or several lanes get more than trains can see, it takes many
// times that to know anything, and whoever begins with it pays less for slow starts. What exceeds the
// allowance is a debt, which delays the next, and where it is not the first of its link at most [longTime] long. What n losses tell of a rate is 0.5/√n, and at a loss of 0.1 % each costs
// 1.3 MB, whoever sees it: 32 MiB read to 10 %, 64 MiB to 7 %, and both directions of a link of 85 Mbit/s save up 38 MB in 10 min.
func (p *Prober) most(l longProbe, u use, cost int64) int64 {
	burst := p.cfg.linkTerms().burstAt(float64(l.rate))
	switch {
	case u == first && l.kind == KindBandwidth:
		burst *= firstPart
	case u == searching: // of a network that holds flows, trains have read but a part
		burst = min(searchGain*burst, float64(p.cfg.LinkBurst))
	case l.kind == KindCapacity: // it goes on only while the lanes get more than trains have read, and half a search says nothing
		burst *= 2
	}
	e, _ := p.rec.known(l.peer.Name)
	// Where nobody knows yet what several lanes get it may be many times what trains read.
	if rate := max(float64(l.rate), float64(e.Capacity)); u != first && u != searching && (l.kind != KindCapacity || e.Capacity > 0) {
		if back := float64(p.rec.arrives(l.peer.Name)); back > 0 {
			rate = min(rate, back*mostBack)
		}
		burst = min(burst, rate*longTime.Seconds())
	}
	most := max(cost*3/2, int64(burst))
	if p.cfg.HourlyCap > 0 {
		most = min(most, p.cfg.HourlyCap/4)
	}
	return most
}

// longUse says which part of a link's budget a long probe draws on: the first of its kind over a
// link as far as this host knows on the burst, so that a new grid is known soon. Where it would take
// so much of that, over a slow link, that the first trains of hosts would wait for hours, it must not: of a sixth of the burst they
// do not, nor of half of what [firstTrains] of them leave, nor of a quarter of what those of all pairs of the two sites do. A second opinion on one that may have met others' packets is as good as the first.
func (p *Prober) longUse(l longProbe) use {
	if l.kind == KindCapacity {
		return p.searchUse(l.peer.site())
	}
	cost, burst := float64(l.cost()), p.cfg.linkTerms().burstAt(float64(l.rate))
	if cost > burst/6 && cost > (burst-firstTrains*firstCost)/2 && cost > (burst-float64(p.pairsTo(l.peer.site()))*firstCost)/4 {
		return again
	}
	second := l.kind == KindBandwidth && p.rec.second(l.peer.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.links[l.peer.site()]
	if s != nil && l.kind == KindBandwidth && (s.bulkedAt.IsZero() || second) {
		return first
	}
	return again
}

// pairsTo returns how many pairs of this site and another measure the link between them, [firstTrains] where it does not know.
func (p *Prober) pairsTo(site string) int {
	roster := p.roster()
	from, to := roster.team(p.cfg.Self.site()), roster.team(site)
	if from < 0 || to < 0 {
		return firstTrains
	}
	round, _ := roundAt(time.Now())
	return len(roster.teams[from].players(round)) * len(roster.teams[to].players(round))
}

// searchUse is longUse of a search. What several lanes get decides between schedules by the factor that they gain, so the first search of
// a young link waits for no debt: its keeper sees to it that there is one, or two where the first found no gain.
func (p *Prober) searchUse(site string) use {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.links[site]; s != nil && s.unsearched() && time.Since(s.since) < youth {
		return searching
	}
	return again
}

// long does a probe with this host's slot held, with at most so many bytes. It yields to an
// exchange. progress may be nil. What was sent is charged and returned, as a link carries it.
func (p *Prober) long(ctx context.Context, l longProbe, most int64, progress func(string, int64)) (bytes int64, a Answer, err error) {
	ctx, release, err := p.takeIdle(ctx)
	if err != nil {
		return 0, Answer{}, err
	}
	defer release()
	if progress == nil {
		progress = func(string, int64) {}
	}
	var sent atomic.Int64
	var fell atomic.Bool
	tell, left, begun := progress, p.left(), time.Now()
	believed, _ := p.rec.known(l.peer.Name)
	one := float64(believed.Bandwidth)
	progress = func(step string, bytes int64) {
		sent.Store(bytes)
		// A search gets what one lane got, at least. One that gets far less is on a link that has fallen, and holds it.
		if d := time.Since(begun); l.kind == KindCapacity && d > searchPatience+20*l.rtt && float64(bytes) < one*d.Seconds()/2 {
			fell.Store(true)
		}
		tell(step, bytes)
	}
	more := func() bool { return !p.pressed() && sent.Load() < left && !fell.Load() }
	if l.kind == KindLogP { // most is not for it: half a session is worth nothing
		before, _ := p.cfg.Endpoint.Stats(l.peer.Name)
		m, n, err := p.logp(ctx, l.peer, more, progress)
		a.Bytes = n
		after, _ := p.cfg.Endpoint.Stats(l.peer.Name)
		if err == nil {
			a.LogP = m.Points
			p.cfg.RecordLogP(l.peer.site(), m.Simplify(logpTolerance))
		}
		// Most messages are small, and each has a packet's headers; of a connection that is new all packets count.
		packets := after.PacketsSent - min(before.PacketsSent, after.PacketsSent)
		return p.spent(l, a, int64(min(packets, uint64(n))), err)
	}
	o := bulkOptions{lanes: 1, link: float64(l.rate), rtt: l.rtt, bytes: min(most, left), time: maxBulkTime, spread: l.want, more: more, progress: progress}
	if l.kind == KindCapacity {
		o.lanes, o.one, o.line = maxLanes, l.one, l.line
	}
	res, err := p.bulk(ctx, l.peer, o)
	if fell.Load() {
		p.Suspect(l.peer.Name)
	}
	a = Answer{Bytes: res.Bytes, Loss: &res.Loss}
	if (res.Rate > 0 || res.Lanes > 0) && (err == nil || res.Enough) {
		err = nil
		a.Bandwidth, a.Spread, a.Capacity, a.Lanes = res.Rate, res.Spread, res.Capacity, res.Lanes
		a.Notes = res.notes(l.kind)
		for _, c := range res.Curve[:min(len(res.Curve), maxCurve)] {
			a.Curve = append(a.Curve, LaneRate{Lanes: c.Lanes, Rate: netmap.BytesPerSec(c.Rate)})
		}
		if p.rec.bulk(l.peer.Name, res) {
			p.Suspect(l.peer.Name)
		}
		p.mu.Lock()
		if s := p.links[l.peer.site()]; s != nil {
			s.bulked, s.bulkedAt = l.peer.Name, time.Now()
			if l.kind == KindCapacity {
				s.doubted = (res.Lanes == 1 || !res.Knee) && s.searchedAt.IsZero()
				s.searchedAt = s.bulkedAt
			}
		}
		p.mu.Unlock()
	}
	return p.spent(l, a, a.Bytes/trainPayload, err)
}

// spent charges what a long probe has sent in so many packets.
func (p *Prober) spent(l longProbe, a Answer, packets int64, err error) (int64, Answer, error) {
	bytes := a.Bytes
	if bytes > 0 {
		bytes += packets*packetCost + sessionCost
	}
	p.charge(bytes)
	if err == nil {
		p.count(func(s *Stats) { s.Bulks++ })
		p.cfg.Log.Debug("long probe", "kind", l.kind, "peer", l.peer.Name, "mbps", a.Bandwidth.Mbps(), "capacity", a.Capacity.Mbps(), "lanes", a.Lanes, "bytes", a.Bytes)
	}
	return bytes, a, err
}

// longDone says when the next of the kind may follow.
func (p *Prober) longDone(l longProbe, err error) {
	if l.glance {
		p.glanced(l, err)
		return
	}
	if l.joint {
		p.jointLooked(l, err)
		return
	}
	next := map[Kind]time.Duration{KindBandwidth: bulkSoon, KindCapacity: capacitySoon, KindLogP: logpEvery}[l.kind]
	if err != nil {
		p.cfg.Log.Debug("no long probe", "kind", l.kind, "peer", l.peer.Name, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally(err)
	s := p.links[l.peer.site()]
	if s == nil {
		return
	}
	switch l.kind {
	case KindBandwidth:
		p.reschedule(&s.bulk, next, err)
	case KindCapacity:
		if s.doubted {
			next = searchAgain
		}
		p.reschedule(&s.capacity, next, err)
	case KindLogP:
		p.reschedule(&s.logp, next, err)
	}
}

// pressed reports whether probes that can wait are to leave the network to somebody here.
func (p *Prober) pressed() bool { return p.cfg.Busy() || p.cfg.Hurried() }
