package probe

import (
	"slices"
	"time"
)

// rttWindow is how many rounds the round-trip filter looks back.
const rttWindow = 6

// rttStep is how many rounds in a row that are longer than the value, and agree, mean that the path has become longer. What
// stands in a queue grows and shrinks meanwhile: NewReno halves its window. Where the path to another host of the site has become
// longer just now, rttStepToo are enough.
const (
	rttStep    = 4
	rttStepToo = 2
)

// An rttFilter turns the round trips of one pair into one value. Queues only ever add
// to a round trip, so the least of the last rounds is the path's own; and because the
// window forgets, a path that has become longer is believed after 6 rounds, after 4 where they agree.
type rttFilter struct {
	window []time.Duration // least of each active round, oldest first
	high   int             // how many of the newest in the window are longer than the value
	// outdated is the connection's least from before the path became longer, which says no more; 0 without such a time.
	// stepped is set until it is known.
	outdated time.Duration
	stepped  bool

	// Of all samples, queues and all: the smoothed round trip and its mean deviation, as
	// QUIC keeps them (RFC 9002, section 5.3).
	smoothed, variation time.Duration
}

// active adds the least round trip of one round of pings. grain is what one packet more takes on the links of the path: by
// that much rounds differ for no reason. After so many rounds as enough that are longer and agree, the path is: then active
// returns true.
func (f *rttFilter) active(d, grain time.Duration, enough int) (stepped bool) {
	f.smooth(d)
	if f.seemsLonger(d, grain) {
		f.high++
	} else {
		f.high = 0
	}
	if len(f.window) == rttWindow {
		f.window = slices.Delete(f.window, 0, 1)
	}
	f.window = append(f.window, d)
	if f.high == rttWindow { // nothing is left of the shorter path to compare with
		f.high = 0
		return false
	}
	if f.high < enough || !agree(f.window[len(f.window)-enough:], grain) {
		return false
	}
	f.window, f.high = slices.Delete(f.window, 0, len(f.window)-enough), 0
	f.stepped = true
	return true
}

// seemsLonger reports whether d lies so far above the value that the path may have changed.
func (f *rttFilter) seemsLonger(d, grain time.Duration) bool {
	if len(f.window) == 0 {
		return false
	}
	v := slices.Min(f.window[:len(f.window)-f.high])
	return d > v+max(time.Millisecond, v/20, 2*grain)
}

// agree reports whether all rounds but one at most, of two one, have met the same path and no queue: they lie near the least.
func agree(rounds []time.Duration, grain time.Duration) bool {
	least, near := slices.Min(rounds), 0
	for _, d := range rounds {
		if d-least <= max(500*time.Microsecond, least/50, grain) {
			near++
		}
	}
	return near >= len(rounds)-1
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
		f.active(d, 0, rttStep)
	} else {
		f.smooth(d)
	}
	return d <= v+v/10+ackDelay
}

// value returns the round trip, or false if none was seen. least is the least round
// trip of the connection's life (0: none): it counts unless a full window of pings
// agrees that the path has become at least a quarter longer since, or the path has been seen to become longer.
func (f *rttFilter) value(least time.Duration) (time.Duration, bool) {
	if len(f.window) == 0 {
		return least, least > 0
	}
	if f.stepped {
		f.outdated, f.stepped = least, false
	}
	v := slices.Min(f.window)
	longer := f.outdated > 0 && least >= f.outdated || len(f.window) == rttWindow && float64(v) > 1.25*float64(least)
	if least > 0 && least < v && !longer {
		v = least
	}
	return v, true
}
