package exchange

import (
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/probe/netmap"
)

// start begins a span at an answer that came at now.
func (m *meter) start(now time.Time) {
	m.span = span{begin: now, late: noTime, queue: noTime, window: m.span.window, lost: m.span.lost}
	m.counted = now
	m.ramp.begin, m.ramp.bytes, m.ramp.starved = now, 0, 0
}

// note looks at the transport for the span.
func (m *meter) note(now time.Time) {
	if m.stats != nil {
		m.seen(m.stats(), now)
	}
}

// seen is note with what was found.
func (m *meter) seen(st quic.ConnectionStats, now time.Time) {
	p := &m.span
	if st.PacketsReceived != m.heard {
		m.heard, m.hearing = st.PacketsReceived, now
	}
	if p.looks > 0 && st.PacketsLost > p.lost {
		m.losing = now
	}
	if p.looks > 0 && (st.CongestionWindow != p.window || st.PacketsLost != p.lost) || st.CongestionWindow >= maxCongestion {
		p.moved++
	}
	// Only a queue that the transport sees in full is one: a peer that reads slowly makes slices late, and its bursts make
	// round trips longer by less.
	if tight, late := m.win.state(); tight && st.LatestRTT-st.MinRTT >= late {
		p.tight++
	}
	p.looks++
	p.window, p.lost = st.CongestionWindow, st.PacketsLost
	m.least = st.MinRTT
	p.rtt += max(st.SmoothedRTT, 0)
	p.queue = min(p.queue, max(st.LatestRTT-st.MinRTT, 0))
}

// look is called every lookEvery. It appends the samples that are complete to out.
func (m *meter) look(now time.Time, out []Sample) []Sample {
	out = m.flush(out)
	m.account(now)
	rests := m.sent == m.got && m.events == m.looked
	if rests && m.joined {
		m.joined = false
		m.flows.leave(&m.flow)
	}
	m.looked = m.events
	var st quic.ConnectionStats
	if m.stats != nil && !(rests && m.rested) { // the transport has no news, and of a socket each look is a system call
		st = m.stats()
		m.tally.look(st)
		if !m.span.begin.IsZero() {
			m.seen(st, now)
		}
	}
	m.rested = rests
	m.pressed(st, now)
	if m.span.begin.IsZero() {
		return out
	}
	d := m.last.Sub(m.span.begin)
	switch {
	case !m.ramp.over && m.settled():
		out = append(out, m.finish(m.last, now))
		m.ramp.over = true
	case d >= sampleTime && m.calm(now, d), d > 0 && now.Sub(m.last) >= sampleTime && m.state == starved:
		out = append(out, m.finish(m.last, now))
	case m.stalled(now):
		out = append(out, m.finish(now, now))
		m.span, m.ramp = span{}, ramp{} // what comes next was on its way before
	case d <= 0 && m.state == starved && now.Sub(m.span.begin) >= sampleTime:
		m.span.begin = time.Time{} // a pause is nobody's sample
	}
	return out
}

// flush appends what a pause has left.
func (m *meter) flush(out []Sample) []Sample {
	if m.pending != nil {
		out = append(out, *m.pending)
		m.pending = nil
	}
	return out
}

// end is look for the last time.
func (m *meter) end(now time.Time, out []Sample) []Sample {
	out = m.flush(out)
	m.account(now)
	if !m.span.begin.IsZero() && m.last.After(m.span.begin) {
		m.note(now)
		out = append(out, m.finish(m.last, now))
	}
	m.joined = false
	m.flows.leave(&m.flow)
	return out
}

// settled ends the ramp's window if it is long enough, and says whether the ramp is over.
func (m *meter) settled() bool {
	d := m.last.Sub(m.ramp.begin)
	if d < min(max(2*m.least, 2*lookEvery), sampleTime) {
		return false
	}
	rate := float64(m.span.bytes-m.ramp.bytes) / d.Seconds()
	idle := m.span.starved-m.ramp.starved > time.Duration(maxStarved*float64(d))
	over := !idle && m.ramp.rate > 0 && rate <= 1.1*m.ramp.rate
	if idle {
		rate = 0
	}
	m.ramp.begin, m.ramp.bytes, m.ramp.starved, m.ramp.rate = m.last, m.span.bytes, m.span.starved, rate
	return over
}

// calm says whether a sample of length d may end. While losses are being repaired, what has
// arrived cannot be read, and will be counted later: the sample would be too low and
// the next too high. A fall is told all the same.
func (m *meter) calm(now time.Time, d time.Duration) bool {
	trip := m.span.rtt / time.Duration(max(m.span.looks, 1))
	return d >= 2*sampleTime || now.Sub(m.losing) >= 3*trip ||
		float64(m.span.bytes)/d.Seconds() < fallen*float64(m.mean)
}

// stalled says whether answers that are due have not come for so long that the time until
// now says more than that until the last answer.
func (m *meter) stalled(now time.Time) bool {
	if !m.ramp.over || m.sent == m.got || m.answers < 2 {
		return false
	}
	usual, quiet := m.last.Sub(m.first)/time.Duration(m.answers-1), now.Sub(m.last)
	if quiet < 2*usual {
		return false
	}
	if quiet >= max(sampleTime, 4*usual) {
		return true
	}
	// Too little even if an answer of the usual size came now.
	d := now.Sub(m.span.begin)
	soon := float64(m.span.bytes) + float64(m.mean)*usual.Seconds()
	return d >= sampleTime && soon/d.Seconds() < fallen*float64(m.mean)
}

// finish makes the sample of the span up to end, and begins the next one there.
func (m *meter) finish(end, now time.Time) Sample {
	s, p := m.sample, m.span
	s.Begin, s.Duration, s.Bytes = p.begin, end.Sub(p.begin), p.bytes
	s.PeerLanes, s.SiteLanes = m.flows.take(&m.flow)
	s.RTT = p.rtt / time.Duration(max(p.looks, 1))
	if s.SiteLanes != m.lanes {
		m.before, m.mean, m.weight, m.lanes = 0, 0, 0, s.SiteLanes
	}
	var behind time.Duration // of the starved time, what lies behind end
	if m.state == starved {
		behind = max(min(now.Sub(end), now.Sub(m.since)), 0)
	}
	idle := float64(p.starved-behind) > maxStarved*float64(s.Duration)
	switch {
	case m.ramp.over && !idle && m.network(s):
		s.Limit, s.Before, s.Mean = Network, m.before, m.mean
		m.remember(s)
	case m.ramp.over && !idle && p.spaced >= s.Duration/spacedPart:
		m.remember(s)
	default:
		m.before = 0
	}
	m.start(end)
	m.counted, m.span.starved = now, behind
	return s
}

// remember takes s into the mean.
func (m *meter) remember(s Sample) {
	if low := fallen * m.mean; m.before < low && s.Rate() < low {
		m.mean, m.weight = m.before, s.Duration // it has fallen for good
	}
	m.before = s.Rate()
	d := min(s.Duration, meanTime)
	w := min(m.weight, meanTime-d)
	m.mean = netmap.BytesPerSec((float64(m.mean)*w.Seconds() + float64(m.before)*d.Seconds()) / (w + d).Seconds())
	m.weight = w + d
}

// network says whether the network held the lane back during the span of s.
func (m *meter) network(s Sample) bool {
	p := m.span
	if p.looks == 0 {
		return false
	}
	if end := s.Begin.Add(s.Duration); end.Sub(m.last) >= sampleTime && end.Sub(m.hearing) >= sampleTime/2 {
		return true // nothing at all comes: the way is cut, or nearly so
	}
	rate := float64(s.Rate())
	if p.late != noTime && p.late.Seconds()*rate > float64(max(m.chunk/2, 2*packet)) {
		return false
	}
	if p.queue >= max(m.least/8, 2*time.Millisecond) {
		return true
	}
	if p.tight > p.looks/2 {
		return true
	}
	// In congestion avoidance the window moves once in a round trip. Behind a window of
	// ours that is full it moves as well, as slow start grows it to twice what is used.
	trips := s.Duration.Seconds() / max(s.RTT, lookEvery).Seconds()
	return p.held < s.Duration/5 && float64(p.moved) >= 0.4*trips
}
