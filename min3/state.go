package min3

import (
	"fmt"
	"math/bits"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A step is one scheduled transfer.
type step struct {
	start, end ticks
	data       int32 // whose block
	src, dst   int32
	depth      int32 // level of the pool tree that scheduled it, root = 0
	after      int32 // index of the step that brought the block to src, -1 at its origin
}

// state is what the hosts and links of the grid are committed to so far. It lives
// through the whole recursion: a sub-pool goes on with the ports and links as the pools above left
// them, and with each block's true arrival at its source in the sub-pool.
type state struct {
	*costs
	words int // 64-bit words of a set of slots

	send []ticks // HostAvailTimeForSend, by host
	recv []ticks // HostAvailTimeForRecv, by host; the same slice as send in half duplex
	link []ticks // CommLinkAvailTime, [to*n+from]

	have    []uint64 // [host*words], the slots that a host holds or is scheduled to
	arrival []ticks  // [host*n+slot], defined where have is set
	via     []int32  // [host*n+slot], the step that brings it, -1 at its origin
	steps   []step

	wide *wideTimes // when wide-area transfers hold the ports; nil with separate links
	sent []int64    // by host: bytes; stays 0 with separate links, where it decides no tie
}

func newState(c *costs, duplex plan.Duplex) *state {
	n := c.n
	st := &state{
		costs:   c,
		words:   (n + 63) / 64,
		send:    make([]ticks, n),
		sent:    make([]int64, n),
		link:    make([]ticks, n*n),
		arrival: make([]ticks, n*n),
		via:     make([]int32, n*n),
		steps:   make([]step, 0, n*(n-1)),
	}
	st.have = make([]uint64, n*st.words)
	// One port that sends or receives is one availability under two names.
	st.recv = st.send
	if duplex == Full {
		st.recv = make([]ticks, n)
	}
	for slot, origin := range c.data {
		st.give(int(origin), slot, 0, -1)
	}
	return st
}

// give records that host holds slot from the time at on.
func (st *state) give(host, slot int, at ticks, via int32) {
	st.have[host*st.words+slot>>6] |= 1 << (slot & 63)
	st.arrival[host*st.n+slot] = at
	st.via[host*st.n+slot] = via
}

// held returns the set of slots of host.
func (st *state) held(host int) []uint64 {
	return st.have[host*st.words : (host+1)*st.words]
}

// free returns when link and ports allow the next transfer from→to.
func (st *state) free(from, to int) ticks {
	return max(st.link[to*st.n+from], st.send[from], st.recv[to])
}

// begin returns when slot from→to would start if it were scheduled now (equations 2, 3).
func (st *state) begin(from, to, slot int) ticks {
	at := max(st.free(from, to), st.arrival[from*st.n+slot])
	if st.wide != nil {
		at = st.fit(at, from, to, slot)
	}
	return at
}

// total returns TotalTime of slot from→to if it were scheduled now (equations 1-3).
func (st *state) total(from, to, slot int) ticks {
	return st.begin(from, to, slot) + st.transfer(from, to, slot)
}

// schedule commits slot from→to for the earliest time that is free.
func (st *state) schedule(from, to, slot, depth int) error {
	start := st.begin(from, to, slot)
	return st.commit(from, to, slot, depth, start, start+st.transfer(from, to, slot))
}

// commit adds the step and updates ports and link by equation 2 or 3.
func (st *state) commit(from, to, slot, depth int, start, end ticks) error {
	i := to*st.n + from
	st.link[i] = start + st.gap(from, to, slot)
	st.send[from] = start + st.overhead(from, to, slot)
	st.recv[to] = end
	if st.wide != nil {
		st.sent[from] += st.sizes[slot]
	}
	if max(end, st.link[i], st.send[from]) > st.last() {
		return fmt.Errorf("block of %s on %s: schedule grows beyond %v",
			st.snap.Host(int(st.data[slot])).Name, st.name(from, to), maxTime)
	}
	st.steps = append(st.steps, step{
		start: start, end: end,
		data: st.data[slot], src: int32(from), dst: int32(to),
		depth: int32(depth), after: st.via[from*st.n+slot],
	})
	st.give(to, slot, end, int32(len(st.steps)-1))
	return nil
}

// firstMissing returns the first slot ≥ from that is in a and not in b, or -1.
func firstMissing(a, b []uint64, from int) int {
	w := from >> 6
	if w >= len(a) {
		return -1
	}
	m := a[w] &^ b[w] &^ (1<<(from&63) - 1)
	for m == 0 {
		if w++; w == len(a) {
			return -1
		}
		m = a[w] &^ b[w]
	}
	return w<<6 + bits.TrailingZeros64(m)
}
