package exchange

import "time"

// tendEvery is how often lanes are looked after: late chunks are found, and lanes added.
// Meters look every lookEvery, a multiple of it. Where no lane has a window nobody looks in between: near hosts need no help, and each look wakes the process.
const tendEvery = 25 * time.Millisecond

// tended reports whether the run needs somebody who looks after its lanes from the start. It needs x.mu.
func (x *run) tended() bool {
	return len(x.meters) > 0 || len(x.levels) > 0 || x.windowed()
}

// windowed reports whether a lane has a window, or may get one. It needs x.mu.
func (x *run) windowed() bool {
	for _, p := range x.peers {
		if p.open > 0 && (p.win != nil || p.path.known() && !p.steady) {
			return true
		}
	}
	return false
}

// pause is how long nobody looks after the lanes. It needs x.mu.
func (x *run) pause() time.Duration {
	if x.windowed() {
		return tendEvery
	}
	return lookEvery
}

// lookAfter has somebody look after the lanes, if nobody does. It needs x.mu, and x.ended not to be set.
func (x *run) lookAfter() {
	if !x.tending {
		x.tending = true
		x.tender.Go(func() { x.tend(x.stopped) })
	}
}

// tollEvery is how often [Config.Lost] is told.
const tollEvery = time.Second

// tend looks after the lanes until done is closed. [Config.Observe] and [Config.Lost] are called without a lock, and [Config.Path] as well.
func (x *run) tend(done <-chan struct{}) {
	every := tendEvery
	tick := time.NewTicker(every)
	defer tick.Stop()
	var samples []Sample // reused
	var tolls []Toll
	var nudges []nudged
	looked := time.Now()
	watched, told := looked, looked
	for last := false; !last; {
		select {
		case <-done:
			last = true
		case <-tick.C:
		}
		now := time.Now()
		watch := now.Sub(watched) >= paceEvery
		var paths map[string]Path
		look := last || now.Sub(looked) >= lookEvery-tendEvery/2 // one tick may come later than the next one
		var others map[string]int
		if look {
			others = x.eng.others(x)
		}
		if watch {
			paths = x.told()
		}
		x.mu.Lock()
		x.eachPeer(func(p *peer) {
			x.tendPeer(p, now)
			nudges = p.nudge(now, nudges)
			p.hasten()
		})
		if watch && !x.doubt.unsure {
			watched = now
			x.watch(now, paths)
		}
		if look {
			looked = now
			x.setLevels(now, others)
			samples = x.trusted(x.observe(now, last, samples), now)
		}
		if next := x.pause(); next != every {
			every = next
			tick.Reset(every)
		}
		if x.eng.cfg.Lost != nil && (last || now.Sub(told) >= tollEvery) {
			told, tolls = now, x.tolls(tolls[:0])
		}
		x.unlock()
		for _, s := range samples {
			x.eng.cfg.Observe(s)
		}
		for _, t := range tolls {
			x.eng.cfg.Lost(t)
		}
		for _, s := range nudges {
			s.Nudge()
		}
		tolls = tolls[:0]
		clear(samples)
		samples = samples[:0]
		clear(nudges)
		nudges = nudges[:0]
	}
}

// tendPeer wakes lanes that could copy what is late, and adds lanes. It needs x.mu.
func (x *run) tendPeer(p *peer, now time.Time) {
	if x.ended || p.open == 0 || p.win == nil || len(p.outs) == 0 {
		return
	}
	c := p.look()
	p.idled = false
	if n := p.grow.look(now, p.path, c); n > p.lanes && p.main == nil && x.eng.cfg.Lanes == nil {
		x.eng.cfg.Log.Debug("more lanes", "peer", p.name, "exchange", x.part.ID, "lanes", n, "had", p.lanes)
		x.staff(p, n)
	}
	short := c.short(p.path)
	// What is lost under way where one flow fills the path is lost to its queue, or shared with others.
	if short && (p.pacer != nil || c.lost == p.lost) && !p.spare && !c.idle && c.ahead <= c.some() && p.main == nil && p.win.alone() {
		p.spare = x.addSpare(p, 0)
		p.late = p.spare
	}
	p.short = short && p.late
	if several := p.lanes > 1 || p.spare; several || p.win.mates() {
		var stuck int64
		for _, l := range p.outs {
			stuck += l.stuck(now.Sub(x.start), p.patience())
		}
		p.win.holds(stuck)
		if several {
			p.cond.Broadcast()
		}
	}
}

// look sees what the lanes to p do. It needs run.mu: quic-go's counters take no lock of
// their own that is held for long.
func (p *peer) look() crowd {
	c := crowd{lanes: p.lanes, idle: p.idled, bytes: p.win.got}
	_, c.ahead = p.win.state()
	var queue time.Duration
	var sent uint64
	n := 0
	for _, l := range p.outs {
		m, ok := l.stream.(measured)
		if !ok {
			continue
		}
		st := m.Stats()
		if st.MinRTT <= 0 {
			continue
		}
		c.lost += st.PacketsLost
		sent += st.PacketsSent
		if l.n == 0 {
			c.window = int64(st.CongestionWindow)
		}
		if c.rtt == 0 || st.MinRTT < c.rtt {
			c.rtt = st.MinRTT
		}
		queue += max(st.SmoothedRTT, st.LatestRTT)
		n++
	}
	if n > 0 {
		p.trip = queue / time.Duration(n)
		c.queue = p.trip - c.rtt
		if sent > 200 {
			p.path.Loss = max(p.path.Loss, float64(c.lost)/float64(sent))
		}
	}
	return c
}

// mostNudges is how many packets that say nothing follow the last ones for a peer: one of them may be lost as well.
const mostNudges = 2

// nudge appends the streams to p whose last packets may have been lost, all that was for p having been given to lanes. What is lost in the middle those behind it show a round trip
// later; the last ones, until the probe timeout, only what is sent for the sake of it (docs/design/lanes.md). It needs run.mu.
func (p *peer) nudge(now time.Time, all []nudged) []nudged {
	if p.open == 0 || p.win == nil || !p.allOut() {
		return all
	}
	for _, l := range p.outs {
		n := len(l.flights)
		if n == 0 || l.nudges >= mostNudges {
			continue
		}
		last := l.flights[n-1].at
		if s, ok := l.stream.(nudged); ok && !last.IsZero() && now.Sub(last) >= time.Duration(l.nudges+1)*max(tendEvery, p.path.RTT/4) {
			l.nudges++
			all = append(all, s)
		}
	}
	return all
}

// A repairer is a stream that sends twice, for a moment, what repairs packets that were lost. A [lane.Stream] is one.
type repairer interface{ RepairTwice() }

// hasten has what is repaired go to p twice from when all that was for p was given to lanes, over ways that lose packets: of a repair that is lost as well whoever waits for all of it waits for another one
// (docs/design/lanes.md). It needs run.mu.
func (p *peer) hasten() {
	if p.open == 0 || p.win == nil || !p.loses || !p.allOut() {
		return
	}
	for _, l := range p.outs {
		if s, ok := l.stream.(repairer); ok && len(l.flights) > 0 && l.by == "" {
			s.RepairTwice()
		}
	}
}
