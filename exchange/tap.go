package exchange

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Windows are shared by all runs to a host: a tap is what one run has of one.

// clockWrap is after how many microseconds clocks in answers begin at 0 again: about 36 minutes, in 5 bytes.
const clockWrap = 1 << 31

// wholeChunk is the largest chunk, in bytes, that goes on before other runs' turns once it has begun. Of larger ones each slice waits
// for its turn: a small block behind a chunk of 1 MiB would take as long as that.
const wholeChunk = 32 << 10

// leastFor is how long the time of the quickest slice holds, at least.
const leastFor = 5 * time.Minute

// clockJump is how much later than the quickest slice none is, but by the clock of a peer that has started anew.
const clockJump = time.Minute

// windows are those of all runs of an engine, by host.
type windows struct {
	mu  sync.Mutex // guards all below; taken under run.mu
	all map[string]*window
	// late is how long answers took, at least, when the last run to a host ended to which they are late ([Path.answersLate]). A window
	// learns it from four answers, which take three such trips, and that is most of a short operation.
	late map[string]time.Duration
}

// mostLate bounds the hosts that windows.late remembers.
const mostLate = 4096

// A tap is what one run has of the window to a host. All of it is written under run.mu and window.mu, and read under either. The nil tap bounds
// nothing.
type tap struct {
	*window
	run         *run
	name        string  // of the host, if the window is shared; otherwise empty
	slice, step int64   // as window's, for this run's chunks and lanes
	part        float64 // likewise
	queue       int64
	lone        bool  // one lane serves the host
	whole       bool  // its chunks are no larger than wholeChunk
	sent, got   int64 // bytes of chunks: written, and answered or given up
	stuck       int64 // of what is between them, what is in no queue
	served      int64 // bytes, with what it was credited when it had nothing to send
}

// A turn is a lane that has, or waits for, room in a window. Guarded by window.mu.
type turn struct {
	waits    bool
	midway   bool // it has begun a chunk
	n        int64
	reserved int64 // bytes that it may write
	silent   int64 // of what it has written, what the peer may have read without an answer
}

// tapOf returns p's part of the window to its host, nil where path does not say enough. A way by another host has a window of its own.
// It needs x.mu.
func (x *run) tapOf(p *peer, path Path, by string) *tap {
	if p.steady && by == "" {
		return nil
	}
	w := newWindow(path, p.lanes, x.part.Chunk)
	if w == nil {
		return nil
	}
	t := &tap{window: w, run: x, slice: w.slice, step: w.step, part: w.part, queue: w.queue, lone: p.lanes == 1, whole: x.part.Chunk <= wholeChunk}
	if by == "" && p.main == nil {
		t.name = p.name
		x.eng.windows.join(t)
	} else {
		w.taps = []*tap{t}
	}
	return t
}

// join puts t on the window of all runs to its host, which is its own if there is none. Each join is ended by leave.
func (a *windows) join(t *tap) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[string]*window)
	}
	old := a.all[t.name]
	if old != nil {
		t.window = old
	}
	a.all[t.name] = t.window
	w := t.window
	w.mu.Lock()
	defer w.mu.Unlock()
	if trip := a.late[t.name]; trip > 0 && old == nil && w.part > 0 {
		w.limit = max(w.limit, w.covering(trip))
	}
	w.taps = append(w.taps, t)
	t.served = w.virtual
	w.fit()
}

// leave ends t: nothing of it is under way.
func (a *windows) leave(t *tap) {
	if t == nil || t.name == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := t.window
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taps = slices.DeleteFunc(w.taps, func(o *tap) bool { return o == t }); len(w.taps) == 0 {
		delete(a.all, t.name)
		a.remember(t.name, w)
		return
	}
	w.stuck -= t.stuck
	w.fit()
	t.hand(nil)
	if len(w.taps) == 1 { // who waits goes by its own rule again
		for _, l := range w.line {
			l.turn.waits = false
			t.run.rouse(l.cond)
		}
		w.line = nil
	}
}

// remember notes what answers took to w's host, if they were late. It needs a.mu and w.mu.
func (a *windows) remember(name string, w *window) {
	trip := slices.Min(w.trips[:])
	if w.part == 0 || trip <= 0 {
		return // too few have come
	}
	if a.late == nil || len(a.late) >= mostLate {
		a.late = make(map[string]time.Duration)
	}
	a.late[name] = trip
}

// fit sets what windows have of the largest of their taps. It needs w.mu.
func (w *window) fit() {
	w.slice, w.step, w.part, w.queue = 0, 0, 0, math.MaxInt64
	for _, t := range w.taps {
		w.slice, w.step, w.part, w.queue = max(w.slice, t.slice), max(w.step, t.step), max(w.part, t.part), min(w.queue, t.queue)
	}
	w.limit = max(w.limit, w.floor*w.slice)
}

// serve is window.serve for this run's part.
func (t *tap) serve(lanes int, p Path, chunk int) {
	if t == nil {
		return
	}
	own := window{small: t.small}
	own.serve(lanes, p, chunk)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slice, t.step, t.part, t.lone = own.slice, own.step, own.part, lanes == 1
	t.fit()
}

// shared reports whether other runs use the window as well. It needs t.mu.
func (t *tap) shared() bool { return len(t.taps) > 1 }

// begin reports whether l may begin a chunk. If not, and wants, it is told by its cond when it may. It needs run.mu.
func (t *tap) begin(l *outLane, wants bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared() {
		return t.ask(l, t.slice, false, wants)
	}
	return t.roomFor(l, t.slice)
}

// take reports whether l may write n bytes more of a chunk that it has begun, and notes that it does. It needs run.mu.
func (t *tap) take(l *outLane, n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ok := t.shared() && t.ask(l, n, true, true) || !t.shared() && t.roomFor(l, n); !ok {
		return false
	}
	t.note(l, n)
	return true
}

// force is take for a frame that is finished in any case.
func (t *tap) force(l *outLane, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(l, n)
}

// note takes n bytes of l as written. It needs t.mu.
func (t *tap) note(l *outLane, n int64) {
	t.drop(l)
	t.sent += n
	t.served += n
	t.wrote(n)
}

// roomFor reports whether l may write n bytes of a window that is this run's alone. What the peer has read and not answered yet may be
// nearly a step on each lane: if that filled the window, both ends would wait for ever. It needs t.mu.
func (t *tap) roomFor(l *outLane, n int64) bool {
	t.drop(l)
	return t.room(n) || l.sent-l.got+n <= t.step+t.slice*5/4
}

// ask is begin and take where several runs use the window. It needs t.mu.
func (t *tap) ask(l *outLane, n int64, midway, wants bool) bool {
	if l.turn.reserved > 0 {
		return true
	}
	if !wants && len(t.line) > 0 {
		return false
	}
	if !l.turn.waits {
		l.turn.waits = true
		t.line = append(t.line, l)
		if t.sent == t.got { // it has had nothing to send: what it did not use is gone
			t.served = max(t.served, t.virtual)
		}
	}
	l.turn.n, l.turn.midway, l.turn.silent = n, midway, 0
	if midway {
		l.turn.silent = min(l.sent-l.got, t.step)
	}
	t.hand(l)
	if l.turn.reserved > 0 {
		return true
	}
	if !wants {
		t.drop(l)
	}
	return false
}

// cancel ends what l waits for, or was given and has no use for. It needs run.mu.
func (t *tap) cancel(l *outLane) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drop(l) {
		t.hand(nil)
	}
}

// drop takes l out of the line, and back what it was given. It needs t.mu.
func (t *tap) drop(l *outLane) bool {
	if !l.turn.waits && l.turn.reserved == 0 {
		return false
	}
	if l.turn.waits {
		t.line = slices.DeleteFunc(t.line, func(o *outLane) bool { return o == l })
	}
	t.reserved -= l.turn.reserved
	l.turn = turn{}
	return true
}

// hand gives room to those who wait for it: chunks that have begun come first if they are short, and then the run that has been served
// least. Who asks just now is not woken: of two lanes with nothing to send each would wake the other for ever. It needs t.mu, and t.run.mu.
func (t *tap) hand(asks *outLane) {
	w := t.window
	for len(w.line) > 0 {
		var first *outLane
		for _, l := range w.line {
			if o := l.win; o.lone && o.stuck > 0 && o.sent-o.got+l.turn.n > w.limit {
				continue // its peer reads nothing
			}
			if first == nil || l.before(first) {
				first = l
			}
		}
		if first == nil || !w.room(first.turn.n) {
			w.pressed = true
			return
		}
		w.line = slices.DeleteFunc(w.line, func(o *outLane) bool { return o == first })
		n := first.turn.n
		first.turn = turn{reserved: n}
		w.reserved += n
		w.virtual = max(w.virtual, first.win.served)
		if first != asks {
			t.run.rouse(first.cond)
		}
	}
}

// before reports whether it is l's turn before o's. It needs window.mu.
func (l *outLane) before(o *outLane) bool {
	if a, b := l.turn.midway && l.win.whole, o.turn.midway && o.win.whole; a != b {
		return a
	}
	return l.win.served < o.win.served
}

// reply notes that the peer has read n bytes more of l's; took and most are as for window.answered. It needs run.mu.
func (t *tap) reply(l *outLane, n int64, took, most time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got += n
	if l.turn.waits && l.turn.midway {
		l.turn.silent = min(l.sent-l.got, t.step)
	}
	t.age(most, time.Now())
	t.answered(n, took, most)
	t.hand(nil)
}

// waited notes that a slice which took so long by the clocks of both ends was answered trip after it had gone out. It needs run.mu.
func (t *tap) waited(trip, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fill(trip, took)
}

// age forgets times of long ago, for clocks drift: 50 parts in a million are 15 ms in 5 minutes. A window may be in use for days.
func (w *window) age(most time.Duration, now time.Time) {
	w.recent = min(w.recent, most)
	if w.turned.IsZero() {
		w.turned = now
	}
	if now.Sub(w.turned) >= leastFor && w.recent < math.MaxInt64 {
		w.least, w.recent, w.turned = w.recent, math.MaxInt64, now
	}
}

// holds notes what of the run's bytes is in no queue. It needs run.mu.
func (t *tap) holds(stuck int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window.stuck += stuck - t.stuck
	if t.stuck = stuck; stuck > 0 {
		t.hand(nil)
	}
}

// lateness returns how much later than the quickest slice one was that took so long by the clocks of both ends, and
// whether there was one before. It needs run.mu.
func (t *tap) lateness(took time.Duration) (late time.Duration, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(took-t.least, 0), t.least < math.MaxInt64
}

// took returns the time between two clocks, of which the peer's counts from any time on and begins anew after [clockWrap]. Results can be compared
// with each other only. It needs run.mu.
func (t *tap) took(sent, clock time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	const wrap = clockWrap * time.Microsecond
	d := (clock - sent) % wrap
	if !t.clocked {
		t.clocked, t.ref = true, d
	}
	d = (d - t.ref) % wrap
	switch {
	case d >= wrap/2:
		d -= wrap
	case d < -wrap/2:
		d += wrap
	}
	if t.least < math.MaxInt64 && d-t.least > clockJump {
		t.least, t.best, t.most, t.recent = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
	}
	return d
}

// early reports whether a slice that went out at, since x began, may have waited for the peer to begin, for long: then the time until its answer
// says nothing of queues. It needs x.mu.
func (x *run) early(at time.Duration) bool {
	if x.doubt.unsure {
		return time.Since(x.start) > shortDoubt
	}
	return !x.doubt.end.IsZero() && x.doubt.end.Sub(x.start) > max(shortDoubt, at)
}

// rouse wakes whom c is of, at once or as soon as x.mu is free. It needs x.mu.
func (x *run) rouse(c *sync.Cond) {
	if c.L == &x.mu {
		c.Broadcast()
		return
	}
	x.wakes = append(x.wakes, c)
}

// unlock unlocks x.mu, and wakes the lanes of other runs for which there is room now.
func (x *run) unlock() {
	wakes := x.wakes
	x.wakes = nil
	x.mu.Unlock()
	for _, c := range wakes {
		c.L.Lock()
		c.Broadcast()
		c.L.Unlock()
	}
}

// state returns whether the last round held something back, and how late its quickest slice was. It needs run.mu.
func (t *tap) state() (tight bool, late time.Duration) {
	if t == nil {
		return false, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tight, t.window.late
}

// alone reports whether no other run uses the window. It needs run.mu.
func (t *tap) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.shared()
}

// mates reports whether other runs use the window as well. It needs run.mu.
func (t *tap) mates() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shared() || t.stuck > 0
}

// fresh reports whether the host has not answered anybody yet. It needs run.mu.
func (t *tap) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.window.got == 0
}
