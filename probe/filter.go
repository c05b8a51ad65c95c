package probe

import (
	"slices"
	"time"
)

// rttWindow is how many rounds the round-trip filter looks back.
const rttWindow = 6

// An rttFilter turns the round trips of one pair into one value. Queues only ever add
// to a round trip, so the least of the last rounds is the path's own; and because the
// window forgets, a path that has become longer is believed after 6 rounds.
type rttFilter struct {
	window []time.Duration // least of each active round, oldest first

	// Of all samples, queues and all: the smoothed round trip and its mean deviation, as
	// QUIC keeps them (RFC 9002, section 5.3).
	smoothed, variation time.Duration
}

// active adds the least round trip of one round of pings.
func (f *rttFilter) active(d time.Duration) {
	f.smooth(d)
	if len(f.window) == rttWindow {
		f.window = slices.Delete(f.window, 0, 1)
	}
	f.window = append(f.window, d)
}

func (f *rttFilter) smooth(d time.Duration) {
	if f.smoothed == 0 {
		f.smoothed, f.variation = d, d/2
		return
	}
	f.variation += ((f.smoothed - d).Abs() - f.variation) / 4
	f.smoothed += (d - f.smoothed) / 8
}

// ackDelay is how long a QUIC receiver may hold an acknowledgement back (25 ms, RFC
// 9000 §18.2, and a timer's grain). quic-go takes the delay out of a sample only where
// what remains is not below the least it has seen, so a sample may hold all of it.
const ackDelay = 26 * time.Millisecond

// passive takes a round trip that the connection's own packets saw, and reports
// whether it fits the value. Traffic fills queues and acknowledgements are delayed,
// so such a sample can confirm or lower the value and never raise it.
func (f *rttFilter) passive(d time.Duration) (fits bool) {
	v, ok := f.value(0)
	if !ok {
		return false
	}
	if d < v {
		f.active(d)
	} else {
		f.smooth(d)
	}
	return d <= v+v/10+ackDelay
}

// value returns the round trip, or false if none was seen. least is the least round
// trip of the connection's life (0: none): it counts unless a full window of pings
// agrees that the path has become at least a quarter longer since.
func (f *rttFilter) value(least time.Duration) (time.Duration, bool) {
	if len(f.window) == 0 {
		return least, least > 0
	}
	v := slices.Min(f.window)
	longer := len(f.window) == rttWindow && float64(v) > 1.25*float64(least)
	if least > 0 && least < v && !longer {
		v = least
	}
	return v, true
}
