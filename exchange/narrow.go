package exchange

import (
	"cmp"
	"slices"
	"time"
)

// tighten lets only so many peers of a way that has fallen be sent to at a time as its rate can
// serve: windows end at a few packets, and those of all pairs of hosts would stand in the queue of the link, or be
// lost there. 32 pairs got 40 % of a link of 0.32 Mbit/s so. It needs run.mu.
func (w *route) tighten(now time.Time) {
	if w.narrow && !w.pace.suspect() {
		w.narrow = false
	}
	room := len(w.peers)
	if w.narrow {
		room = max(1, int(w.pace.rate()*narrowTime.Seconds()/(leastSlices*leastSlice)))
	}
	// Those that are sent to go on for a turn; then come the others. Nobody waits for ever behind one who does not get on.
	waits := func(p *peer) bool { return p.quiet || now.Sub(p.turn) > narrowTurn }
	slices.SortFunc(w.peers, func(a, b *peer) int {
		if waits(a) != waits(b) {
			if waits(b) {
				return -1
			}
			return 1
		}
		return cmp.Or(a.turn.Compare(b.turn), a.index-b.index)
	})
	for _, p := range w.peers {
		quiet := false
		if p.wants() {
			room--
			quiet = room < 0
		}
		if !quiet && waits(p) {
			p.turn = now
		}
		if p.quiet != quiet {
			p.quiet = quiet
			p.cond.Broadcast()
		}
	}
}

// wants reports whether a lane to p has something to write, or is in the middle of a chunk. It needs run.mu.
func (p *peer) wants() bool {
	for _, s := range p.sends[p.first:] {
		if !s.confirmed && (s.writing > 0 || s.waits == 0 && s.ready > 0) {
			return true
		}
	}
	return false
}

const (
	// narrowTime is what windows of a way that has fallen may hold of what it carries.
	narrowTime = 500 * time.Millisecond
	// narrowTurn is how long one goes on while others wait.
	narrowTurn = 2 * time.Second
)
