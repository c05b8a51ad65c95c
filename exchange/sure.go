package exchange

import (
	"sync"
	"time"
)

// A run may begin before it is known that the others have begun as well ([Data.Sure]). Until then it sends, but only so much as a
// host that has not begun can leave unread, and it concludes nothing from what it sees: a peer that does not answer
// may have nobody there who wants the bytes yet.

const (
	// maxUnsure bounds the bytes of chunks to one peer until a run is sure of it, and maxUnsures those of all such runs. They stand in the
	// receive window of a connection that carries other things as well, which begins at 1.5 MiB (lane.initialConnWindow).
	maxUnsure  = 256 << 10
	maxUnsures = 512 << 10
	// unsureTransit is the part of the memory for forwarding that one such run may reserve, and unsureTransits that which must be left of
	// it: what all of them reserve would be missing to runs whose hosts are there.
	unsureTransit  = 64
	unsureTransits = 2
	// shortDoubt is how long a run may be unsure without its samples being thrown away: longer than
	// a round trip to whoever knows, where all come at the same time.
	shortDoubt = 400 * time.Millisecond
)

// doubt is whether a run knows that its peers have begun. Guarded by run.mu.
type doubt struct {
	unsure bool
	shown  chan struct{} // closed when what has come shows that the others have begun
	over   bool          // the run has ended so
	end    time.Time     // when unsure ended; zero: it has not, or never was
}

// hold lets x wait until it is sure, or has ended, if it forwards much: what is reserved for late hosts would be missing elsewhere.
func (e *Engine) hold(x *run) {
	need := x.part.Transit()
	if x.data.Sure == nil || need == 0 {
		return
	}
	e.mu.Lock()
	left := e.cfg.MaxTransit - e.transit - need
	e.mu.Unlock()
	if need <= e.cfg.MaxTransit/unsureTransit && left >= e.cfg.MaxTransit/unsureTransits {
		return
	}
	select {
	case <-x.data.Sure:
	case <-x.ctx.Done():
	}
}

// doubts counts what runs that are not sure have sent to each host.
type doubts struct {
	mu   sync.Mutex // guards sent; taken under run.mu
	sent map[string]int64
}

// take counts n bytes more to host, if there is room for them.
func (d *doubts) take(host string, n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent[host]+n > maxUnsures {
		return false
	}
	if d.sent == nil {
		d.sent = make(map[string]int64)
	}
	d.sent[host] += n
	return true
}

// give takes back n bytes to host.
func (d *doubts) give(host string, n int64) {
	if n == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent[host] -= n; d.sent[host] <= 0 {
		delete(d.sent, host)
	}
}

// settleDoubt waits until the run is sure, and lets its lanes go on.
func (x *run) settleDoubt() {
	sure := false
	select {
	case <-x.data.Sure:
		sure = true
	case <-x.doubt.shown:
		return
	case <-x.ctx.Done():
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doubt.unsure {
		x.endDoubt(sure)
	}
}

// shows counts one receive as complete. It needs x.mu.
func (x *run) shows() {
	if x.toGet--; x.toGet == 0 && x.doubt.unsure && x.data.Shown {
		close(x.doubt.shown)
		x.endDoubt(true)
	}
}

// endDoubt lets the lanes go on if the run is sure of the others, and gives back what it counted. It needs x.mu.
func (x *run) endDoubt(sure bool) {
	x.eachPeer(func(p *peer) {
		x.eng.doubts.give(p.name, p.doubted)
		p.doubted = 0
	})
	if !sure {
		x.doubt.over = true
		return
	}
	x.doubt.unsure, x.doubt.end = false, time.Now()
	x.landIfSure()
	if x.doubt.end.Sub(x.start) > shortDoubt {
		for _, m := range x.meters {
			m.forget(x.doubt.end)
		}
	}
	x.eachPeer(func(p *peer) { p.cond.Broadcast() })
}

// doubts reports whether a chunk of n bytes to p must wait until the run is sure, and counts it if not. It needs x.mu.
func (x *run) doubts(p *peer, n int64) bool {
	if !x.doubt.unsure {
		return false
	}
	if x.doubt.over || p.doubted+n > maxUnsure || !x.eng.doubts.take(p.name, n) {
		p.doubts = true
		return true
	}
	p.doubted += n
	return false
}

// trusted returns the samples that are worth something, in place: a lane whose peer has not begun looks like one that stalls.
// It needs x.mu.
func (x *run) trusted(samples []Sample, now time.Time) []Sample {
	since := x.doubt.end
	if x.doubt.unsure {
		since = now
	}
	if x.data.Sure == nil || since.Sub(x.start) <= shortDoubt {
		return samples
	}
	kept := samples[:0]
	for _, s := range samples {
		if !s.Begin.Before(since) {
			kept = append(kept, s)
		}
	}
	clear(samples[len(kept):])
	return kept
}

// forget lets the meter begin anew: what it saw so far says nothing.
func (m *meter) forget(now time.Time) {
	m.span, m.ramp, m.before, m.pending = span{}, ramp{}, 0, nil
	m.press = press{late: noTime, got: m.got}
	m.mean, m.weight = 0, 0
	m.since, m.counted = now, now
}

// Refuse ends the wait of the streams of an exchange that will never begin here, and of those that come later: their senders are
// told the reason. It does nothing to one that runs or has run.
func (e *Engine) Refuse(id ID, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x, o := e.lookup(id); x != nil || o != nil {
		return
	}
	e.remember(id, outcome{failure: reason})
	if w := e.expected[id]; w != nil {
		close(w.started)
		delete(e.expected, id)
	}
}

// Known reports whether a part of the exchange runs here, has run, or was refused, as far as that is remembered: Run would say [ErrRunning].
func (e *Engine) Known(id ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, o := e.lookup(id)
	return x != nil || o != nil
}
