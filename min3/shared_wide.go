package min3

import "cmp"

// A wideArea schedules the transfers between leaf pools along given routes.
//
// It is a list schedule: of the transfers whose block is at its source, the one goes next
// that can start first, and of those that of the longest tail, the time from its arrival
// until the last pool behind it has the block.
type wideArea struct {
	*state
	*routes
	slotOf  []int     // data index -> slot
	at      []int     // [data*pools+pool]: the host at which the block enters the pool
	free    [][]ticks // by pipe: when each of its slots is free
	waiting [][]hop   // by pipe
	next    []choice  // by pipe: the next transfer, or a lower bound of its start
	crossed []int64   // [to*n+from]: bytes between hosts of different pools
	entered []int64   // by host: bytes of the blocks that enter its pool there, and of its own
}

// A hop is a block whose next transfer waits for a pipe.
type hop struct {
	data    int
	arrival ticks // at the source
	tail    ticks
}

// A choice is a transfer that a pipe could start next.
type choice struct {
	hop
	place      int // in waiting; -1 where nothing waits
	dst        int
	start, end ticks
}

func newWideArea(st *state, r *routes) *wideArea {
	p := len(r.pools)
	w := &wideArea{
		state: st, routes: r,
		slotOf: make([]int, st.n), at: make([]int, st.n*p),
		free: make([][]ticks, p*p), waiting: make([][]hop, p*p), next: make([]choice, p*p),
		crossed: make([]int64, st.n*st.n), entered: make([]int64, st.n),
	}
	for slot, d := range st.data {
		w.slotOf[d] = slot
	}
	for i := range w.free {
		w.free[i] = make([]ticks, r.pipes[i].slots)
		w.next[i].place = -1
	}
	for d := range st.n {
		w.entered[d] += r.bytes[d]
		w.reach(d, r.poolOf[d], d, 0)
	}
	return w
}

// reach notes that data d is in pool k from the time at on, at host, and lets the
// transfers that go on from there wait for their pipes.
func (w *wideArea) reach(d, k, host int, at ticks) {
	p := len(w.pools)
	w.at[d*p+k] = host
	for to := range p {
		if w.parent[d*p+to] == k {
			e := to*p + k
			w.waiting[e] = append(w.waiting[e], hop{data: d, arrival: at, tail: w.tail(d, to)})
			w.next[e] = w.choose(e)
		}
	}
}

// run schedules until nothing waits.
func (w *wideArea) run() error {
	for {
		e := w.first()
		if e < 0 {
			return nil
		}
		// Ports and slots only get later, so what was chosen before is a lower bound.
		c := w.choose(e)
		if c.start > w.next[e].start {
			w.next[e] = c
			continue
		}
		if err := w.take(e, c); err != nil {
			return err
		}
	}
}

// first returns the pipe whose next transfer goes first, or -1.
func (w *wideArea) first() int {
	best := -1
	for e := range w.next {
		if w.next[e].place >= 0 && (best < 0 || w.next[e].before(&w.next[best])) {
			best = e
		}
	}
	return best
}

func (c *choice) before(d *choice) bool {
	return cmp.Or(cmp.Compare(c.start, d.start), cmp.Compare(d.tail, c.tail), cmp.Compare(c.data, d.data)) < 0
}

// choose returns the transfer that pipe e starts next.
func (w *wideArea) choose(e int) choice {
	p := len(w.pools)
	from, to := e%p, e/p
	best := choice{place: -1}
	slot := w.free[e][w.slot(e)]
	for i, h := range w.waiting[e] {
		c := choice{hop: h, place: i, start: max(h.arrival, slot, w.send[w.at[h.data*p+from]])}
		if best.place < 0 || c.before(&best) {
			best = c
		}
	}
	if best.place >= 0 {
		w.enter(&best, w.at[best.data*p+from], e, to)
	}
	return best
}

// enter chooses the host at which the block enters pool to: where it arrives first, and of
// equals the one with the fewest bytes to spread in its pool. But where it takes several
// flows to fill the pipe, pairs of hosts that have carried less come first: the blocks of
// one pair are one flow, whatever room the pipe has.
func (w *wideArea) enter(c *choice, src, e, to int) {
	earliest, least := c.start, int64(0)
	c.dst = -1
	for _, h := range w.pools[to] {
		start := max(earliest, w.recv[h], w.link[h*w.n+src])
		end := start + w.lasting(e, src, h, c.data)
		var used int64
		if w.pipes[e].slots > 1 {
			used = w.crossed[h*w.n+src]
		}
		if c.dst < 0 || cmp.Or(cmp.Compare(used, least), cmp.Compare(end, c.end), cmp.Compare(w.entered[h], w.entered[c.dst])) < 0 {
			c.dst, c.start, c.end, least = h, start, end, used
		}
	}
}

// lasting returns how long data d takes src→dst in a slot of pipe e.
func (w *wideArea) lasting(e, src, dst, d int) ticks {
	slotted := w.latency[dst*w.n+src] + w.moving(w.pipes[e].rate, w.bytes[d])
	return max(slotted, w.transfer(src, dst, w.slotOf[d]))
}

// slot returns the slot of pipe e that is free first.
func (w *wideArea) slot(e int) int {
	best := 0
	for i, t := range w.free[e] {
		if t < w.free[e][best] {
			best = i
		}
	}
	return best
}

// take commits c on pipe e.
func (w *wideArea) take(e int, c choice) error {
	p := len(w.pools)
	src := w.at[c.data*p+e%p]
	// The slot is free again when the last byte has left; the way takes the latency more.
	w.free[e][w.slot(e)] = c.end - w.latency[c.dst*w.n+src]
	if err := w.commit(src, c.dst, w.slotOf[c.data], 0, c.start, c.end); err != nil {
		return err
	}
	last := len(w.waiting[e]) - 1
	w.waiting[e][c.place] = w.waiting[e][last]
	w.waiting[e] = w.waiting[e][:last]
	w.crossed[c.dst*w.n+src] += w.bytes[c.data]
	w.entered[c.dst] += w.bytes[c.data]
	w.next[e] = w.choose(e)
	w.reach(c.data, e/p, c.dst, c.end)
	return nil
}
