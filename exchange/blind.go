package exchange

import (
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// leastOver and mostOver bound by how much more than what is known of its path a host sends where nobody knows what several flows get: if one fills the link two slices of
	// that are to stand in a queue after blindTime.
	leastOver, mostOver = spacingShare - 1, 0.25
	blindTime           = 100 * time.Millisecond
	// blindUp is the factor by which it goes on faster where no queue is met, blindMost the most.
	blindUp, blindMost = 2., 64.
	// blindSlices is how many slices of one pair of hosts go out until two answers have told what they met.
	blindSlices = 5
	// blindTries bounds how often the time without a queue that this takes is doubled.
	blindTries = 4
)

// blinds remember how fast may be sent to sites of which nobody knows what several flows get, over all peers and runs: an operation may be too short to find out, and each of its
// pairs of hosts sends a few slices. To go on at twice the rate while nothing stands in a queue is slow start (Jacobson, Congestion Avoidance and Control, SIGCOMM 1988) of a whole site, by delays
// and not by losses; that it goes back to what met no queue, and stays, is our own (docs/design/lanes.md).
type blinds struct {
	mu sync.Mutex // guards of and what it holds; taken under run.mu
	of map[string]*blindLink
}

// A blindLink is what slices to a site have met.
type blindLink struct {
	level float64       // times what one flow gets
	good  float64       // a level that met no queue, spacingShare at least
	tries int           // levels that met one
	quiet time.Duration // for how long no slice has met a queue
	last  time.Time     // when the last one went
	since time.Time     // when the level came to be what it is, or what slices met was no queue
}

// level takes in whether the last slices to site, over p, have met a queue, and returns at how many times its part of what is known this host sends there.
func (b *blinds) level(site string, p Path, met bool, now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of[site]
	if l == nil {
		if b.of == nil || len(b.of) >= maxSpacings {
			b.of = make(map[string]*blindLink)
		}
		l = &blindLink{level: 1 + over(p), good: spacingShare, last: now, since: now}
		b.of[site] = l
	}
	l.look(p, met, now)
	return l.level
}

// look takes in what the slices before now have met.
func (l *blindLink) look(p Path, met bool, now time.Time) {
	went := now.Sub(l.last)
	l.last = now
	switch {
	case went >= unmet/2: // nothing has gone
		l.since = now
	case !met:
		l.quiet += went
		l.since = now
		if l.quiet >= l.enough(p)<<l.tries {
			l.good, l.level, l.quiet = l.level, min(blindUp*l.level, blindMost), 0
		}
	case l.level > l.good:
		l.level, l.quiet, l.since, l.tries = l.good, 0, now, min(l.tries+1, blindTries)
	case now.Sub(l.since) >= unmet: // what was faster has left the queue long ago
		l.level = max(l.level/blindUp, spacingShare)
		l.good, l.quiet, l.since = l.level, 0, now
	default:
		l.quiet = 0
	}
}

// enough returns for how long no slice must have met a queue: if the link were full of somewhat less than what goes, two would stand in one after a third of the second part. Of what slices have met
// each pair of hosts tells after blindSlices of its own.
func (l *blindLink) enough(p Path) time.Duration {
	full := netmap.BytesPerSec(l.level * float64(p.capacity()))
	more := netmap.BytesPerSec(over(p) * float64(full))
	return min(3*p.RTT+3*more.Time(metSlices*leastSlice)+full.Time(int64(p.Flows)*blindSlices*leastSlice), 2*unmet)
}

// over returns by how much more than what is known a host sends over p.
func over(p Path) float64 {
	return min(max(float64(p.capacity().Time(metSlices*leastSlice))/float64(blindTime), leastOver), mostOver)
}
