package identity

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// failLimit failed attempts from one source within failWindow close the door to
	// it until the window ends. A secret has 128 bits, so this is not what keeps
	// guessing hopeless; it keeps a script with a stale token from filling the log.
	failLimit  = 10
	failWindow = time.Minute
	// maxSources bounds the memory that strangers can take (about 100 bytes each).
	maxSources = 4096
)

// attempts counts failures per source. The zero value is ready.
type attempts struct {
	mu   sync.Mutex // guards from
	from map[netip.Prefix]window
}

type window struct {
	start time.Time
	fails int
}

// source is what is counted as one: an IPv4 address, or the /64 that an IPv6 host
// chooses its addresses from.
func source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the zero Prefix for the zero Addr
	return p
}

// blocked returns for how long a must wait, 0 if it need not.
func (t *attempts) blocked(a netip.Addr, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.from[source(a)]
	if !ok || w.fails < failLimit {
		return 0
	}
	return max(0, failWindow-now.Sub(w.start))
}

// fail counts a failure of a.
func (t *attempts) fail(a netip.Addr, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from == nil {
		t.from = make(map[netip.Prefix]window)
	}
	key := source(a)
	w, ok := t.from[key]
	if !ok || now.Sub(w.start) >= failWindow {
		w = window{start: now}
	}
	w.fails++
	if !ok && len(t.from) >= maxSources {
		t.evict(now)
	}
	t.from[key] = w
}

// evict removes what has ended, or else the oldest window.
func (t *attempts) evict(now time.Time) {
	var oldest netip.Prefix
	var start time.Time
	for key, w := range t.from {
		if now.Sub(w.start) >= failWindow {
			delete(t.from, key)
		} else if start.IsZero() || w.start.Before(start) {
			oldest, start = key, w.start
		}
	}
	if len(t.from) >= maxSources {
		delete(t.from, oldest)
	}
}
