package probe

import (
	"slices"
	"time"
)

const (
	// readers is of how many hosts a keeper remembers what they last read of a link. So many
	// representatives of a site, and twice as many more, take turns on it.
	readers = 24
	// readerAge is for how long what a host has read counts beside the newest.
	readerAge = 15 * time.Minute
	// quorum is of how many hosts the median stands against one that is wrong.
	quorum = 3
)

// linkReadings are what the hosts of a site have read of a link, in bytes a second. One of them may
// stand elsewhere than its label says, or lie: what a link may carry of probes goes by the median
// of them, and no host's word is news that it has always said. The zero value knows nothing.
type linkReadings struct {
	last   map[string]lastRead // by host; "" is the keeper
	newest float64             // of the readings that are news or agree with the others; 0: none
}

// A lastRead is what a host has read last.
type lastRead struct {
	rate float64
	at   time.Time
}

// said notes that host has read rate, above 0, and reports whether it tells of a change: whether it
// differs from what was read before, by others and by the host itself.
func (l *linkReadings) said(host string, rate float64, now time.Time) (changed bool) {
	before, known := l.last[host]
	changed = l.newest > 0 && apart(rate, l.newest) > outdated && !(known && apart(rate, before.rate) <= outdated)
	if l.last == nil {
		l.last = make(map[string]lastRead)
	}
	l.last[host] = lastRead{rate, now}
	l.forget(now)
	if changed || l.newest == 0 || apart(rate, l.rate()) <= outdated {
		l.newest = rate
	}
	return changed
}

// forget drops what is old, and the oldest of too many.
func (l *linkReadings) forget(now time.Time) {
	for name, r := range l.last {
		if now.Sub(r.at) > readerAge {
			delete(l.last, name)
		}
	}
	for len(l.last) > readers {
		oldest := ""
		for name, r := range l.last {
			if o, ok := l.last[oldest]; !ok || r.at.Before(o.at) || r.at.Equal(o.at) && name < oldest {
				oldest = name
			}
		}
		delete(l.last, oldest)
	}
}

// rate returns the median of what hosts have read, of two the keeper's own, else the lower one, and 0
// where nobody has.
func (l *linkReadings) rate() float64 {
	if len(l.last) == 0 {
		return 0
	}
	if own, ok := l.last[""]; ok && len(l.last) < quorum {
		return own.rate
	}
	rates := make([]float64, 0, len(l.last))
	for _, r := range l.last {
		rates = append(rates, r.rate)
	}
	slices.Sort(rates)
	return rates[(len(rates)-1)/2]
}

// lacks reports whether what host reads of the link is wanted in any case: few have said what they
// read, and it has not.
func (l *linkReadings) lacks(host string, now time.Time) bool {
	l.forget(now)
	_, said := l.last[host]
	return !said && len(l.last) > 0 && len(l.last) < quorum
}
