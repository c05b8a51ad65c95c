package exchange

import (
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// pressIdle is the share of the time between two looks in which a lane that is pressed may have had nothing
	// to send.
	pressIdle = 0.1
	// pressQueue is the queue that a pressed lane stands in at least, as a part of the round trip without one, and
	// pressLeast where that is very short. What a window of ours keeps in a queue is about that much, and four times
	// as much when the link has fallen to a quarter.
	pressQueue = 1. / 16
	pressLeast = 2 * time.Millisecond
	// maxPressed bounds the hosts that are counted.
	maxPressed = 4096
)

// A press is the part of a meter that tells at once, and not after the second that a sample takes, that the
// network holds a lane back: since the last look the lane always had something to send, and what arrived stood in
// a queue on the way there. A sample asks what a lane got and may then be compared with another; this asks
// only whether a link on the way is full.
//
// A queue is seen in the transport's round trip. That may be one of the other direction, in which answers stand; so
// where a window of ours has the receiver's clock (see [window]), the slices must have been late as well.
// They are when the peer reads slowly, too: then by far more than the round trip, in which only the packets of a
// slice wait for each other. And they must have been later than the last of the least window waits for the others: on a slow link the slices of one lane that go
// out together wait for each other as long as that, and the last pair of an exchange looked as if the link had fallen to what it got.
//
// A lane whose congestion control has found a rate, as BBR does, tells nothing: it keeps a queue of its own however much room the link has, and takes
// seconds to see that others have ended. The last lanes of an exchange over a lossy link were taken for all that it carries, and the next exchange planned for that.
type press struct {
	starved time.Duration // since the last look
	at      time.Time     // of the last look
	got     int64         // meter.got then
	late    time.Duration // least lateness of a slice since then, by the clocks of both ends; noTime: none known
}

// slice notes that what the peer has just answered was late by so much. A nil meter does nothing.
func (m *meter) slice(late time.Duration) {
	if m != nil {
		m.press.late = min(m.press.late, max(late, 0))
	}
}

// pressed counts what was answered since the last look if the lane was pressed, and begins the next span. st is what the transport shows, if anything was
// answered.
func (m *meter) pressed(st quic.ConnectionStats, now time.Time) {
	p, n := m.press, m.got-m.press.got
	m.press = press{at: now, got: m.got, late: noTime}
	if p.at.IsZero() || n <= 0 || m.stats == nil || m.rated || float64(p.starved) > pressIdle*float64(now.Sub(p.at)) {
		return
	}
	queue := st.LatestRTT - st.MinRTT
	if m.win != nil {
		if p.late == noTime || queue < p.late/2 || p.late < m.win.burst() {
			return
		}
		queue = min(queue, p.late)
	}
	if queue >= max(time.Duration(pressQueue*float64(st.MinRTT)), pressLeast) {
		m.flows.pressed.add(m.flow.peer, n)
	}
}

// pressures counts, by host, the bytes that hosts have read while the network held all of a lane back.
type pressures struct {
	mu    sync.Mutex // guards bytes; taken under run.mu
	bytes map[string]uint64
}

func (c *pressures) add(peer string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.bytes[peer]; c.bytes == nil || !ok && len(c.bytes) >= maxPressed {
		c.bytes = make(map[string]uint64) // who reads it sees them begin again
	}
	c.bytes[peer] += uint64(n)
}

// Pressed returns how many bytes of chunks host has read from lanes that the network held back then: they always had
// something to send, and it stood in a queue on the way there. It only grows, but for when it
// begins at 0 again. What is not known to be so, as on lanes without the transport's counters, is not in it.
func (e *Engine) Pressed(host string) uint64 {
	c := &e.flows.pressed
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes[host]
}
