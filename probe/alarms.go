package probe

import "time"

// alarms bounds the second opinions that a link, or a receiver, bears while an exchange runs:
// one in urgentGap, but sooner where the one before has found another rate, since a second
// host has to see that, and where it has found nothing. The zero value has granted none.
type alarms struct {
	since time.Time // when the first of those that count was granted
	n     int
	next  time.Time
}

// wait returns how long the next one has to wait.
func (a *alarms) wait(now time.Time) time.Duration {
	rest := urgentGap - now.Sub(a.since)
	switch {
	case rest <= 0:
		return 0
	case a.n >= urgentMost:
		return rest
	}
	return min(max(a.next.Sub(now), 0), rest)
}

// grant notes that one begins.
func (a *alarms) grant(now time.Time) {
	if now.Sub(a.since) >= urgentGap {
		*a = alarms{since: now}
	}
	a.n++
	a.next = now.Add(urgentGap)
}

// ended notes whether the one that was granted last was sent at all, whether it was read, and
// whether what it read is another rate than before.
func (a *alarms) ended(now time.Time, sent, read, other bool) {
	switch {
	case !sent:
		a.n = max(a.n-1, 0)
		a.next = now.Add(slotRetry)
	case !read:
		a.next = now.Add(urgentRetry)
	case other:
		a.next = now
	}
}
