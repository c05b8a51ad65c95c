package group

import (
	"slices"
	"time"
)

// Words that can wait. Where ranks do the same again and again, the coordinator's answer to a host's call holds nobody up: hosts begin by the plan of
// before, or their small contributions travel at once, and what they get from each other shows that all have called. What they tell
// the coordinator is then for its books. Every word is a packet, its acknowledgement another, and all go through one host's port: with 24 hosts and 5 Mbit/s
// they took longer than blocks of 256 bytes. So such words wait for others, and go with them in one piece. They say for how long they waited.

const (
	// maxLazy is how many words wait together: what fits a packet or so.
	maxLazy = 8
	// bookPause is how long a word waits that nobody waits for.
	bookPause = 100 * time.Millisecond
	// maxCallPause bounds how long a call waits. If others want something else than before it holds up all.
	maxCallPause = 250 * time.Millisecond
	// leastCallPause is for operations that take next to nothing: hosts do not call at the same instant.
	leastCallPause = 2 * time.Millisecond
	// callPatience is for how many times as long as the operation took before a call waits, and leastPatience for how many at least, or it does not: its word is to go when the operation is over.
	callPatience  = 2
	leastPatience = 1.25
	// maxAgo bounds what is believed of how long a word has waited.
	maxAgo = time.Second
	// maxLazyBytes bounds what this host sends and gets in an operation whose call waits, in bytes: a host may send 256 KiB to another before it
	// knows that that has begun as well (exchange/sure.go), also of what it forwards.
	maxLazyBytes = 128 << 10
)

// lazy lets m wait for so long.
func (m *message) lazy(d time.Duration) {
	m.since = time.Now()
	m.until = m.since.Add(d)
}

// callPause is how long a call waits of an operation that took so long before; 0: it does not.
func callPause(took time.Duration) time.Duration {
	if took <= 0 || leastPatience*float64(took) > float64(maxCallPause) {
		return 0
	}
	return min(max(callPatience*took, leastCallPause), maxCallPause)
}

// pauseLocked is how long the call that ready tells of may wait, 0 if it may not.
func (m *member) pauseLocked(ready *message) time.Duration {
	switch {
	case ready.Eager:
		return m.small.pause()
	case ready.Keep: // where it is not the last of this host, the pause of the operation before counts
		return m.pause
	}
	return 0
}

// A smallPause is how long calls of small operations may wait.
type smallPause struct {
	took     time.Duration // by the last one
	row      int           // so many of them followed each other
	mistrust int           // power of two of how many must, before calls wait: others wanted something larger while they did
}

func (s *smallPause) pause() time.Duration {
	if s.row < 1<<s.mistrust {
		return 0
	}
	return callPause(s.took)
}

// over notes that a small operation took so long at this host.
func (s *smallPause) over(took time.Duration) {
	s.took = took
	s.row++
}

// larger notes that an operation of which ranks of this host had small contributions was planned.
func (s *smallPause) larger() {
	if s.pause() > 0 {
		s.mistrust = min(s.mistrust+1, maxMistrust)
	}
	s.row = 0
}

// A lull is what waits to be said to the coordinator, in order.
type lull struct {
	words []*message
	timer *time.Timer
}

func newLull() *lull {
	l := &lull{timer: time.NewTimer(time.Hour)}
	l.timer.Stop()
	return l
}

// add takes a word behind those that wait, and reports whether all of them are to go now.
func (l *lull) add(m *message) bool {
	if m.Kind != kindOver {
		l.words = append(l.words, m)
	}
	if len(l.words) == 0 {
		return false
	}
	if m.until.IsZero() || len(l.words) >= maxLazy {
		return true
	}
	if m.Kind == kindDone || m.Kind == kindOver { // nobody waits for the calls any more
		for _, w := range l.words {
			if w.Seq == m.Seq {
				w.until = m.until
			}
		}
	}
	l.timer.Reset(time.Until(l.due()))
	return false
}

// due is when the first of the words has waited for long enough. What was done before a call that waits goes with that: it would meet the data of the operation on its way.
func (l *lull) due() (t time.Time) {
	called := slices.ContainsFunc(l.words, func(m *message) bool { return m.Kind == kindReady })
	for _, m := range l.words {
		if called && m.Kind != kindReady {
			continue
		}
		if t.IsZero() || m.until.Before(t) {
			t = m.until
		}
	}
	return t
}

// take returns the words that wait as one, nil if none does.
func (l *lull) take() *message {
	l.timer.Stop()
	if len(l.words) == 0 {
		return nil
	}
	for i, w := range l.words[1:] {
		l.words[i].then = w
	}
	first := l.words[0]
	l.words = nil
	return first
}

// together lists m and what goes with it, ready to be sent.
func together(m message) (all []message) {
	now := time.Now()
	for w := &m; w != nil; w = w.then {
		said := *w
		said.then = nil
		if !said.until.IsZero() {
			said.Ago = now.Sub(said.since)
		}
		all = append(all, said)
	}
	return all
}
