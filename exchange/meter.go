package exchange

import (
	"fmt"
	"math"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// lookEvery is how often a lane is looked at. A fall is to be told within 2 s, of
	// which the sample that lies half before it and half behind takes one.
	lookEvery = 100 * time.Millisecond
	// sampleTime is the length of a sample, but for the last one before a pause. That may
	// take shortTrips round trips if it holds shortBytes.
	sampleTime = time.Second
	shortTrips = 8
	shortBytes = 64 << 10
	// maxStarved is the share of a sample in which there may have been nothing to send.
	maxStarved = 0.05
	// meanTime is how far back the mean of a lane goes.
	meanTime = 10 * time.Second
	// fallen is the share of its mean at which a lane is news.
	fallen = 0.6
	// spacedPart is the part of a sample that its slices must have waited for the host's spacing for that to be what held the lane.
	spacedPart = 4
	// packet is what a packet carries of a stream, in bytes, or so.
	packet = 1250
	// maxCongestion is where quic-go's congestion window stops growing.
	maxCongestion = 10_000 * packet
)

// A laneState is what a lane does at an instant.
type laneState uint8

const (
	starved laneState = iota // there is nothing to send
	held                     // its window is full
	writing                  // data are queued before the transport
)

// A meter watches one lane to a peer, over all of its streams, and makes samples.
//
// What limits a lane is concluded in this order:
//
//   - the application, if there was nothing to send for more than maxStarved of the time,
//     or the flow has just begun (see ramp);
//   - the receiver, and so the application, if what arrived there stood unread all the
//     time: each answer comes later than the transport's round trip after its chunk has left;
//   - the network, if the transport shows it at work: round trips are longer than the
//     least one by a queue, or the congestion window moves, as it grows only while it is
//     full and shrinks on loss, or a window of ours is full and sees a queue, if a short one;
//   - something else, and so the application: a flow-control window that is smaller than the
//     path, a window of ours that was set too low, or a spacing of ours. What is spaced the way has carried at least, and
//     what comes later is compared with it.
//
// That a rate is worth something only with a mark of who limited it is the idea of BBR's
// delivery rate samples (draft-ietf-ccwg-bbr, §4.1). The marks are our own: they are
// made of what quic-go counts.
//
// It does no I/O and reads no clock. Guarded by run.mu.
type meter struct {
	sample Sample // what all samples of the lane have in common
	chunk  int64
	flow   flow
	flows  *flows
	joined bool // flow is counted as active

	// Of the stream that is open.
	stats     func() quic.ConnectionStats // nil: not known
	sent, got int64                       // chunk bytes: taken to be written, and answered
	timed     int64                       // byte at which the chunk ends whose answer is timed; 0: none
	left      time.Time                   // when that chunk had been written
	first     time.Time                   // first answer; zero: none
	last      time.Time                   // newest answer
	answers   int
	heard     uint64        // packets received at the last look
	hearing   time.Time     // when a look found more than before
	losing    time.Time     // when a look found more losses than before
	win       *tap          // that holds the lane back; nil: none
	least     time.Duration // round trip of the way without queues, as far as known
	rated     bool          // it is sent at a rate that congestion control has found, see [rated]
	asked     bool          // the peer answers; otherwise the lane is only counted as active
	events    int           // chunks written, and answers
	looked    int           // events at the last look
	rested    bool          // nothing was under way then, and nothing had been written or answered since the one before

	tally   tally
	state   laneState
	since   time.Time // when state began
	counted time.Time // up to when span accounts for it

	span    span
	press   press
	ramp    ramp
	pending *Sample // of a pause, until the next look
	before  netmap.BytesPerSec
	mean    netmap.BytesPerSec
	weight  time.Duration // of mean
	lanes   int           // Sample.SiteLanes for before and mean
}

// A span is what a sample will be made of. It begins and ends with an answer.
type span struct {
	begin         time.Time // zero: not yet
	bytes         int64
	starved, held time.Duration
	spaced        time.Duration // that slices waited for the host's spacing
	late          time.Duration // least time from an answer's due to its coming; noTime: none timed
	looks, moved  int           // looks, and those that found the congestion window or the losses changed
	tight         int           // looks that found the window full because of a queue
	rtt           time.Duration // sum over the looks
	queue         time.Duration // least over the looks of how far the round trip was over the empty way's
	window, lost  uint64        // at the last look
}

const noTime = time.Duration(math.MaxInt64)

// A ramp finds the end of a flow's start: the first window that carries no more than a
// tenth over the one before. A window is two round trips of the empty way or more, in which
// slow start would quadruple; once there is a queue, what comes out grows no more.
type ramp struct {
	over    bool
	begin   time.Time // of the window
	bytes   int64     // of the span at begin
	starved time.Duration
	rate    float64 // of the window before; 0: none
}

// open begins a stream, with the transport's counters if they are known. asked says that
// the peer is asked for answers.
func (m *meter) open(stats func() quic.ConnectionStats, asked bool, now time.Time) {
	m.stats, m.asked = stats, asked
	m.sent, m.got, m.timed, m.answers = 0, 0, 0, 0
	m.first, m.last = time.Time{}, time.Time{}
	m.rested = false
	m.span, m.ramp, m.before = span{}, ramp{}, 0
	m.press = press{late: noTime}
	m.state, m.since, m.counted = starved, now, now
	m.heard, m.hearing, m.losing = 0, now, time.Time{}
	m.tally.again()
}

// enter notes what the lane does from now on. A nil meter does nothing.
func (m *meter) enter(s laneState, now time.Time) {
	if m == nil {
		return
	}
	m.account(now)
	if s == starved && m.state != starved && m.ramp.over && m.pending == nil {
		m.pause(now)
	}
	if s != m.state {
		m.state, m.since = s, now
	}
}

// pause ends a span that is long enough, before time without data dilutes it.
func (m *meter) pause(now time.Time) {
	d := m.last.Sub(m.span.begin)
	if m.span.begin.IsZero() || d < lookEvery || m.span.bytes < shortBytes {
		return
	}
	m.note(now)
	if d >= shortTrips*m.span.rtt/time.Duration(max(m.span.looks, 1)) {
		s := m.finish(m.last, now)
		m.pending = &s
	}
}

// account adds the time since it was last called to the span and the press.
func (m *meter) account(now time.Time) {
	if d := now.Sub(m.counted); d > 0 && m.state == starved {
		m.press.starved += d
	}
	if !m.span.begin.IsZero() {
		from := m.counted
		if from.Before(m.span.begin) {
			from = m.span.begin
		}
		if d := now.Sub(from); d > 0 {
			switch m.state {
			case starved:
				m.span.starved += d
			case held:
				m.span.held += d
			}
		}
	}
	m.counted = now
}

// waits notes that the next slice waits for so long, for the sake of others that share the way.
func (m *meter) waits(d time.Duration) {
	if m != nil && !m.span.begin.IsZero() {
		m.span.spaced += d
	}
}

// wrote notes that n bytes of a chunk are about to be written.
func (m *meter) wrote(n int, now time.Time) {
	if m == nil {
		return
	}
	m.enter(writing, now)
	m.events++
	if m.asked {
		m.sent += int64(n)
	}
	if !m.joined {
		m.joined = true
		m.flows.join(&m.flow)
	}
}

// handed notes that the transport has taken the last chunk.
func (m *meter) handed(now time.Time) {
	if m != nil && m.timed == 0 && m.got < m.sent {
		m.timed, m.left = m.sent, now
	}
}

// answered notes that the peer has read got bytes in all. Its error is errMalformed. A
// peer can lie by what is under way, and by no more.
func (m *meter) answered(got int64, now time.Time) error {
	if m == nil {
		return nil
	}
	if got < m.got || got > m.sent {
		return fmt.Errorf("%w: answer to %d bytes after %d, of %d that were sent", errMalformed, got, m.got, m.sent)
	}
	n := got - m.got
	m.got = got
	if m.first.IsZero() {
		m.first = now
	}
	m.answers++
	m.events++
	m.last = now
	if m.span.begin.IsZero() {
		m.start(now)
	} else {
		m.span.bytes += n
	}
	if m.stats == nil {
		return nil
	}
	if m.timed > 0 && got >= m.timed {
		m.span.late = min(m.span.late, max(now.Sub(m.left)-m.stats().LatestRTT, 0))
		m.timed = 0
	}
	return nil
}
