package lane

import (
	"slices"
	"time"
)

// CloseWarm closes lanes that this host has dialed, with numbers from 1 to last, and that nobody uses:
// those without a stream for quiet, and of the others without one all but the most recently used
// most. An Open that comes later dials anew. It does not block.
func (e *Endpoint) CloseWarm(last int, quiet time.Duration, most int) {
	now := time.Now()
	e.mu.Lock()
	spare := warm(e.links.order, last, now, quiet, most)
	for _, l := range spare {
		l.use.retiring = true // no stream is opened on it any more
	}
	e.mu.Unlock()
	for _, l := range spare {
		l.conn.CloseWithError(codeClosed, "no more use for this lane") // the goroutine that serves it does the rest
	}
}

// warm returns those of all links that CloseWarm closes.
func warm(all []*link, last int, now time.Time, quiet time.Duration, most int) []*link {
	var idle []*link
	for _, l := range all {
		if !l.dialed || l.lane < 1 || l.lane > last || l.use.retiring || l.up.Err() != nil {
			continue
		}
		if l.use.look(now); len(l.use.open) == 0 {
			idle = append(idle, l)
		}
	}
	slices.SortStableFunc(idle, func(a, b *link) int { return b.use.last.Compare(a.use.last) })
	keep := 0
	for keep < min(len(idle), max(most, 0)) && now.Sub(idle[keep].use.last) < quiet {
		keep++
	}
	return idle[keep:]
}
