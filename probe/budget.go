package probe

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A use is what bytes are spent on. Each has a part of the allowance that is sure.
type use int

const (
	first     use = iota // of a pair that was never measured
	watch                // a short train that looks whether a link is as it was
	again                // what is measured again at length: bulks, capacity, LogP; inside a site all
	urgent               // a second opinion where a reading and an estimate disagree
	searching            // the first search of a young link for what several lanes get
	glancing             // what comes before, see glance.go
	together             // and after, see joint.go
	uses

	// operator is what an operator wants at once: it is charged to again, and waits for no budget while
	// that owes less than operatorTime of the link.
	operator = uses
)

// useNames are the uses in messages.
var useNames = [uses + 1]string{"first", "watch", "again", "urgent", "search", "glance", "joint", "operator"}

// parts is what each use is sure of; what one has no need of goes to the others. Most is
// for watch: a change that nobody sees costs more than an estimate that is a little off.
// Of a slow link watch takes all that it gets. A search is paid for with what it takes of the others, long after.
var parts = [uses]float64{first: 0.04, watch: 0.58, again: partAgain, urgent: 0.15, searching: 0.005, glancing: 0.005, together: 0.02}

const partAgain = 0.20

const (
	// bootstrapTime bounds the burst on slow links: what a link may carry of probes at
	// once is never more than it carries in this time. It lets every pair of two sites
	// with 8 hosts each be measured once over 1.16 Mbit/s (64 × 21 kB).
	bootstrapTime = 12 * time.Second
	// lateTime is the same once a link is no longer young: what hosts that come later take for trains to their
	// peers, 13 of them over 1.16 Mbit/s. It is 0.06 % of an hour, where the burst would be a third of a per cent.
	lateTime = 2 * time.Second
	// urgentTime is the same for second opinions: each of 8 hosts with a short train of
	// its own over a link that has just fallen takes 3 s.
	urgentTime = 4 * time.Second
	// operatorTime bounds what operators may have a link owe, or a host could ask in their name for
	// ever. A search for the knee, a bulk probe and LogP take a minute or two of it together.
	operatorTime = 5 * time.Minute
)

// Terms are what a budget allows.
type terms struct {
	share   float64 // of the rate that was measured
	burst   int64   // bytes of first measurements at once
	ceiling float64 // bytes a second, whatever the rate; 0: none
	late    bool    // the link is no longer young: first measurements have lateTime instead of bootstrapTime
}

// A budget says how many bytes of probes a link, or a host, may still carry. First
// measurements and second opinions may draw on a burst; what is measured again lives on
// a share of the rate that was measured from the start. Debts leak: together by
// share × rate. The zero value has spent nothing and knows no rate.
type budget struct {
	spent [uses]float64
	at    time.Time // when spent was true
	rate  float64   // bytes a second; 0 while unknown, and then nothing leaks
	top   float64   // the highest rate so far
}

// burstAt returns how many bytes of first measurements a link of so many bytes a second may carry at
// once.
func (t terms) burstAt(rate float64) float64 {
	if t.late {
		return min(float64(t.burst), rate*lateTime.Seconds())
	}
	return min(float64(t.burst), rate*bootstrapTime.Seconds())
}

// allowance returns the bytes a second that leak.
func (b *budget) allowance(t terms) float64 {
	a := t.share * b.rate
	if t.ceiling > 0 {
		a = min(a, t.ceiling)
	}
	return a
}

// leak brings spent up to now.
func (b *budget) leak(now time.Time, t terms) {
	if !b.at.IsZero() && now.After(b.at) {
		rest := b.allowance(t) * now.Sub(b.at).Seconds()
		// Each turn the uses in debt share what is left by their parts; one that needs
		// less leaves the rest for the next turn.
		for range uses {
			var sum float64
			for u := range b.spent {
				if b.spent[u] > 0 {
					sum += parts[u]
				}
			}
			if sum == 0 || rest <= 0 {
				break
			}
			given := rest
			for u := range b.spent {
				if b.spent[u] > 0 {
					d := min(b.spent[u], given*parts[u]/sum)
					b.spent[u] -= d
					rest -= d
				}
			}
		}
	}
	b.at = now
}

// wait returns how long to wait until cost bytes may be sent, 0 if they may be now. It is
// exact up to a minute, after which the caller should ask again, if nothing else is
// spent meanwhile. Where even an idle budget is too small (12 s of a very slow link are less
// than a train), the budget need only be idle.
func (b *budget) wait(now time.Time, u use, cost int64, t terms) time.Duration {
	b.leak(now, t)
	if b.open(u, cost, t) {
		return 0
	}
	later := func(d time.Duration) bool {
		c := *b
		c.leak(now.Add(d), t)
		return c.open(u, cost, t)
	}
	// Below a millisecond nobody waits; above a minute nobody need know.
	lo, hi := time.Duration(0), time.Minute
	if !later(hi) {
		return hi
	}
	for hi-lo > time.Millisecond {
		if mid := (lo + hi) / 2; later(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// open reports whether cost bytes may be sent now.
func (b *budget) open(u use, cost int64, t terms) bool {
	limit, burst := float64(cost), float64(t.burst)
	if b.rate > 0 {
		burst = t.burstAt(b.rate)
	}
	switch u {
	case first:
		limit = burst
	case glancing: // there is one
		limit = 0
	case together: // a second one where hosts were busy
		limit *= 2
	case searching: // a second one after one that found no gain, and took no more than it was to cost
		limit += min(limit, burst)
	case urgent:
		limit = float64(t.burst)
		if b.rate > 0 {
			limit = min(limit, b.rate*urgentTime.Seconds())
		}
	}
	return b.spent[u] < 1 || b.spent[u]+float64(cost) <= limit
}

// granted reports whether an operator's probe may go ahead.
func (b *budget) granted(now time.Time, t terms) bool {
	b.leak(now, t)
	return b.spent[again] <= max(float64(t.burst), b.rate*operatorTime.Seconds())
}

// spend notes that bytes were sent and, where one was measured, the rate. Debts are of
// the link's time: when it becomes slower they shrink with it, or a link that has
// fallen would not be looked at for as long as it takes to repay what was little before. When it is faster again
// they are what they were, or readings that differ by a per cent would forgive as much of a debt with each train.
// Above the highest rate so far they stay: a link that was misread at first has spent no more for that. What was sent before
// the first rate is known is no more than may be sent at once of a link of that rate.
func (b *budget) spend(now time.Time, u use, bytes int64, rate netmap.BytesPerSec, t terms) {
	b.leak(now, t)
	if r := float64(rate); r > 0 {
		if b.rate > 0 {
			scale := min(r, b.top) / b.rate
			for i := range b.spent {
				b.spent[i] *= scale
			}
		} else {
			for i := range b.spent {
				b.spent[i] = min(b.spent[i], r*bootstrapTime.Seconds())
			}
		}
		b.rate, b.top = r, max(b.top, r)
	}
	b.spent[u] += float64(bytes)
}

const (
	accountSpan  = 30 * time.Second
	accountSpans = int(time.Hour/accountSpan) + 1
)

// An account holds how many bytes were sent in the last hour, in 1 kB of memory. It
// forgets by half minutes: the sum is never too small, and at most 30 s of it are too old.
// The zero value is an account of nothing.
type account struct {
	sent  [accountSpans]int64
	began time.Time // when span 0 did, a reading of the clock that nobody sets
	last  int64     // number of the newest span
	sum   int64
}

// roll forgets what is older than an hour. A clock that goes back forgets nothing; the one that is set, of which UnixNano
// tells, does not count, or an hour that was too late once would be remembered until it comes.
func (a *account) roll(now time.Time) {
	if a.began.IsZero() {
		a.began = now
	}
	n := int64(now.Sub(a.began) / accountSpan)
	for k := 0; a.last < n && k < accountSpans; k++ {
		a.last++
		i := a.last % int64(accountSpans)
		a.sum -= a.sent[i]
		a.sent[i] = 0
	}
	a.last = max(a.last, n)
}

func (a *account) add(now time.Time, bytes int64) {
	a.roll(now)
	a.sent[a.last%int64(accountSpans)] += bytes
	a.sum += bytes
}

// total returns the bytes of the last hour.
func (a *account) total(now time.Time) int64 {
	a.roll(now)
	return a.sum
}
