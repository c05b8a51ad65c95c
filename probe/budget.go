package probe

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// bootstrapTime bounds the burst on slow links: what a link may carry of probes at
// once is never more than it carries in this time. It lets every pair of two sites
// with 8 hosts each be measured once over 1.16 Mbit/s (64 × 21 kB).
const bootstrapTime = 12 * time.Second

// A use is what bytes are spent on.
type use int

const (
	first use = iota // of a pair that was never measured
	again            // of a pair that was
	uses
)

// A budget says how many bytes of probes a link, or a host, may still carry. First
// measurements of pairs may draw on a burst, so that a new grid is known soon; what
// is measured again lives on a share of the rate that was measured from the start.
// Both leak: together by share × rate, half each while both have spent. The zero
// value has spent nothing and knows no rate.
type budget struct {
	spent [uses]float64
	at    time.Time // when spent was true
	rate  float64   // bytes a second; 0 while unknown, and then nothing leaks
}

// leak brings spent up to now.
func (b *budget) leak(now time.Time, share float64) {
	if !b.at.IsZero() && now.After(b.at) {
		drop := share * b.rate * now.Sub(b.at).Seconds()
		half := max(drop/2, drop-b.spent[again])
		half = min(half, b.spent[first]) // what one side has no use for is the other's
		b.spent[first] -= half
		b.spent[again] = max(b.spent[again]-(drop-half), 0)
	}
	b.at = now
}

// wait returns how long to wait until a train of cost bytes may be sent, 0 if it may
// be now. Where even an idle budget is too small for it (12 s of a very slow link are
// less), the budget need only be idle.
func (b *budget) wait(now time.Time, u use, cost int64, share float64, burst int64) time.Duration {
	b.leak(now, share)
	limit := float64(burst)
	if b.rate > 0 {
		limit = min(limit, b.rate*bootstrapTime.Seconds())
	}
	if u == again {
		limit = float64(cost)
	}
	over := b.spent[u] + float64(cost) - limit
	if over <= 0 || b.spent[u] < 1 {
		return 0
	}
	if b.rate == 0 {
		return time.Minute // nothing is known of the link; somebody will have learnt by then
	}
	// Half of the share is sure. It may be more, so the caller looks again within a minute.
	secs := min(over, b.spent[u]) / (share / 2 * b.rate)
	return time.Duration(min(secs, time.Minute.Seconds())*float64(time.Second)) + time.Millisecond
}

// spend notes that bytes were sent and, where one was measured, the rate.
func (b *budget) spend(now time.Time, u use, bytes int64, rate netmap.BytesPerSec, share float64) {
	b.leak(now, share)
	b.spent[u] += float64(bytes)
	if rate > 0 {
		b.rate = float64(rate)
	}
}
