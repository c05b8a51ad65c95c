package min3

import (
	"math"
	"math/bits"

	"github.com/gridagent/gridagent/pools"
)

// never is the time of an offer that does not exist.
const never = ticks(math.MaxInt64)

// An offer is a transfer to a known destination that could be scheduled next.
type offer struct {
	time ticks // TotalTime
	data int32 // data index
	slot int32 // the same block by size
	src  int32
	sent int64 // by src so far, see state
}

// before orders the offers to one destination: time, data, bytes sent, source.
func (o offer) before(p offer) bool {
	if o.time != p.time {
		return o.time < p.time
	}
	if o.data != p.data {
		return o.data < p.data
	}
	if o.sent != p.sent {
		return o.sent < p.sent
	}
	return o.src < p.src
}

// A level schedules the transfers between the sub-pools of one input pool
// (InitSched, FindMin, ScheduleInputPool and UpdateAfterSched, Figures 3-6).
type level struct {
	*state
	depth   int
	hosts   []int    // of the input pool, ascending
	poolOf  []int32  // by position in hosts: index of the sub-pool
	pools   [][]int  // positions in hosts, by sub-pool
	reached []uint64 // [sub-pool*words], the slots that a host of the sub-pool holds
	pending int      // (data, sub-pool) pairs still to serve: the sum of |DestPools|

	// best[i] is at or before the best offer to hosts[i], and equal to it if it holds.
	best []offer
}

func newLevel(st *state, p *pools.Pool, depth int) *level {
	l := &level{state: st, depth: depth, hosts: p.Hosts, poolOf: make([]int32, len(p.Hosts))}
	pos := make(map[int]int, len(p.Hosts))
	for i, h := range p.Hosts {
		pos[h] = i
	}
	subs := subPools(p)
	l.reached = make([]uint64, len(subs)*st.words)
	l.pools = make([][]int, len(subs))
	for k, sub := range subs {
		reached := l.got(k)
		for _, h := range sub {
			l.poolOf[pos[h]] = int32(k)
			l.pools[k] = append(l.pools[k], pos[h])
			for w, word := range st.held(h) {
				reached[w] |= word
			}
		}
		l.pending += st.n
		for _, word := range reached {
			l.pending -= bits.OnesCount64(word)
		}
	}
	l.best = make([]offer, len(l.hosts))
	for i := range l.hosts {
		l.best[i] = l.search(i)
	}
	return l
}

// got returns the set of slots that sub-pool k holds.
func (l *level) got(k int) []uint64 {
	return l.reached[k*l.words : (k+1)*l.words]
}

// run schedules until every sub-pool holds every block once.
func (l *level) run() error {
	for l.pending > 0 {
		to, o := l.pick()
		dst, slot := l.hosts[to], int(o.slot)
		if err := l.schedule(int(o.src), dst, slot, l.depth); err != nil {
			return err
		}
		l.got(int(l.poolOf[to]))[slot>>6] |= 1 << (slot & 63)
		l.pending--
		l.addSource(dst, slot)
	}
	return nil
}

// pick returns the best offer of all, and the position of its destination.
// Every stored offer is a lower bound, so the least one is the answer if it holds;
// if not, its column is searched again and has moved back.
func (l *level) pick() (to int, o offer) {
	for {
		to = 0
		for i := 1; i < len(l.best); i++ {
			if l.best[i].time <= l.best[to].time && l.less(i, to) {
				to = i
			}
		}
		o = l.best[to]
		if l.holds(to, o) {
			return to, o
		}
		l.best[to] = l.search(to)
	}
}

// less orders the offers to different destinations: time, data, sub-pool, bytes
// sent by the source, source, destination.
func (l *level) less(i, j int) bool {
	a, b := &l.best[i], &l.best[j]
	switch {
	case a.time != b.time:
		return a.time < b.time
	case a.data != b.data:
		return a.data < b.data
	case l.poolOf[i] != l.poolOf[j]:
		return l.poolOf[i] < l.poolOf[j]
	case a.sent != b.sent:
		return a.sent < b.sent
	case a.src != b.src:
		return a.src < b.src
	}
	return i < j // hosts is ascending
}

// holds reports whether o is still wanted by the sub-pool and its terms are the same.
func (l *level) holds(to int, o offer) bool {
	slot := int(o.slot)
	if l.got(int(l.poolOf[to]))[slot>>6]>>(slot&63)&1 != 0 {
		return false
	}
	return l.sent[o.src] == o.sent && l.total(int(o.src), l.hosts[to], slot) == o.time
}

// search returns the best offer to the host at position to.
func (l *level) search(to int) offer {
	best := offer{time: never}
	k := l.poolOf[to]
	got := l.got(int(k))
	for i, src := range l.hosts {
		// What a host of the same sub-pool holds, the sub-pool has.
		if l.poolOf[i] != k {
			l.improve(&best, src, l.hosts[to], got)
		}
	}
	return best
}

// improve puts the best offer from src to dst in the place of best if it is better. got is what the
// sub-pool of dst holds.
//
// Slots are taken in order of size, so after the first block that is at src in time
// only larger ones remain, which end no earlier; of those, blocks whose larger size
// vanishes in the rounding to ticks can still win the tie by their index.
func (l *level) improve(best *offer, src, dst int, got []uint64) {
	free := l.free(src, dst)
	if free+l.transfer(src, dst, 0) > best.time {
		return
	}
	held := l.held(src)
	arrival := l.arrival[src*l.n : (src+1)*l.n]
	for slot := firstMissing(held, got, 0); slot >= 0; {
		t := l.transfer(src, dst, slot)
		if free+t > best.time {
			return
		}
		at := max(free, arrival[slot])
		if l.wide != nil && at+t <= best.time {
			at = l.fit(at, src, dst, slot)
		}
		if at+t <= best.time {
			o := offer{time: at + t, data: l.data[slot], slot: int32(slot), src: int32(src), sent: l.sent[src]}
			if o.before(*best) {
				*best = o
			}
		}
		next := slot + 1
		if arrival[slot] <= free {
			next = int(l.next[slot]) // blocks of the same size have a higher index
		}
		slot = firstMissing(held, got, next)
	}
}

// addSource offers slot from its new source src to the sub-pools that lack it.
// It is the only thing that can lower an offer.
func (l *level) addSource(src, slot int) {
	for k, members := range l.pools {
		if l.got(k)[slot>>6]>>(slot&63)&1 != 0 {
			continue
		}
		for _, to := range members {
			o := offer{time: l.total(src, l.hosts[to], slot), data: l.data[slot], slot: int32(slot), src: int32(src), sent: l.sent[src]}
			if o.before(l.best[to]) {
				l.best[to] = o
			}
		}
	}
}
