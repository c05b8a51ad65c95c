package netmap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	maxCulprits    = 64
	rememberFaults = time.Hour
)

// A culprit is a host that sent or signed what no honest one does.
type culprit struct {
	faults int
	last   time.Time
	what   string // of the last fault
}

// blame remembers err as the fault of host and returns it with its name. The caller does
// not hold the lock.
func (m *Map) blame(host string, now time.Time, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.culprits[host]
	if c == nil {
		if len(m.culprits) >= maxCulprits {
			delete(m.culprits, slices.MinFunc(slices.Collect(maps.Keys(m.culprits)), func(a, b string) int {
				return cmp.Or(m.culprits[a].last.Compare(m.culprits[b].last), cmp.Compare(a, b))
			}))
		}
		c = &culprit{}
		m.culprits[host] = c
	}
	c.faults++
	c.last, c.what = now, clip(err.Error())
	return fmt.Errorf("from %s: %w", host, err)
}

// clip bounds what a fault may quote.
func clip(s string) string {
	const most = 240
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// Warnings returns a sentence for each host that in the last hour sent or signed what no
// honest host does, and for each of [Map.Suspects] and [Map.Misreadings]; by name.
func (m *Map) Warnings(now time.Time) []string {
	var out []string
	for _, s := range m.Suspects(now) {
		out = append(out, s.String())
	}
	for _, d := range m.Misreadings(now) {
		out = append(out, d.String())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, host := range slices.Sorted(maps.Keys(m.culprits)) {
		c := m.culprits[host]
		if now.Sub(c.last) > rememberFaults {
			delete(m.culprits, host)
			continue
		}
		out = append(out, fmt.Sprintf("host %s: map rows refused %d times, last %v ago: %s", host, c.faults,
			max(0, now.Sub(c.last)).Round(time.Second), c.what))
	}
	return out
}

// errMessage is the fault of a peer whose message makes no sense.
var errMessage = errors.New("map message")
