package probe

import (
	"math"
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
}

// active adds the least round trip of one round of pings.
func (f *rttFilter) active(d time.Duration) {
	if len(f.window) == rttWindow {
		f.window = slices.Delete(f.window, 0, 1)
	}
	f.window = append(f.window, d)
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

// rateWindow is how many trains the bandwidth filter looks back.
const rateWindow = 3

// A rateFilter turns the trains of one ordered pair into one value and its spread.
type rateFilter struct {
	rates   []float64 // newest last
	spreads []float64 // of the trains themselves
}

// add takes a new train's rate and spread. Two trains in a row that agree within 15 %
// and lie 25 % off the one before are a change of the link, not noise: what came
// before is dropped.
func (f *rateFilter) add(rate, spread float64) {
	f.rates, f.spreads = append(f.rates, rate), append(f.spreads, spread)
	if n := len(f.rates); n >= 3 {
		a, b, old := f.rates[n-1], f.rates[n-2], f.rates[n-3]
		if apart(a, b) <= 0.15 && apart(a, old) > 0.25 && apart(b, old) > 0.25 {
			f.rates, f.spreads = f.rates[n-2:], f.spreads[n-2:]
		}
	}
	if n := len(f.rates); n > rateWindow {
		f.rates, f.spreads = f.rates[n-rateWindow:], f.spreads[n-rateWindow:]
	}
}

// value returns the median of the window, and the larger of how far its trains lie
// apart and how wide the widest was in itself; both relative.
func (f *rateFilter) value() (rate, spread float64) {
	v := slices.Sorted(slices.Values(f.rates))
	rate = quantile(v, 0.5)
	return rate, min(max(slices.Max(f.spreads), (v[len(v)-1]-v[0])/rate), maxSpread)
}

// apart is the relative distance of two positive numbers.
func apart(a, b float64) float64 { return math.Abs(a-b) / max(a, b) }
