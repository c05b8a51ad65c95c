package group

import (
	"sync"
	"time"
)

const (
	// quiet is for how long after the last small operation another one is expected.
	quiet = time.Second
	// turn is for how long small operations that go on and on have the network to themselves; for as long again
	// they share it with what measures it.
	turn = 30 * time.Second
)

// A hurry knows whether ranks of this host are at small operations, which a probe that fills queues makes wait for
// longer than they take. They are no exchanges that run: those fill the links themselves, and tell the
// map what they get. A barrier that waits for a late rank is no hurry either.
type hurry struct {
	mu    sync.Mutex // guards the fields below
	begun time.Time  // since when no two of them were farther apart than quiet
	last  time.Time
}

// note notes that a small operation begins or ends at now.
func (h *hurry) note(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.last) > quiet {
		h.begun = now
	}
	h.last = now
}

// is reports whether others are to stand back.
func (h *hurry) is(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.last.IsZero() && now.Sub(h.last) <= quiet && now.Sub(h.begun)%(2*turn) < turn
}

// Hurried reports whether small operations of this host's ranks follow one another, the last a moment ago. While they
// do so for minutes, it is false for half of the time.
func (g *Groups) Hurried() bool { return g.hurry.is(time.Now()) }
