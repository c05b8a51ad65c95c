package wan

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// order lets every link carry its legs one after the other at its rate, and notes in which
// order they start: those with most links left first, then those that start in the pool in
// the order of turns, then those of other pools as they come. What waits for a relay never
// holds up a link that has something else.
func (s *scheduler) order() {
	s.countLanes()
	var queue starts
	// Each link has one entry that counts, the earliest.
	wake := func(k int) {
		l := &s.links[k]
		if when, ok := l.next(); ok && when < l.awake {
			l.awake = when
			heap.Push(&queue, start{when, k})
		}
	}
	for k := range s.links {
		l := &s.links[k]
		s.sortTurns(l)
		l.awake = math.Inf(1)
		wake(k)
	}
	for len(queue) > 0 {
		at := heap.Pop(&queue).(start)
		l := &s.links[at.id]
		if at.at != l.awake {
			continue
		}
		id := l.take(s.legs, at.at)
		g := &s.legs[id]
		s.done = append(s.done, id)
		took := float64(g.bytes) / l.rate
		l.free = at.at + took
		s.ends = max(s.ends, l.free+l.latency)
		l.awake = math.Inf(1)
		wake(at.id)
		if g.next >= 0 {
			to := s.legs[g.next].link
			// Each lane has its share of the link, so the last byte comes that much later.
			heap.Push(&s.links[to].coming, start{at.at + took*float64(l.lanes) + l.latency, g.next})
			wake(to)
		}
	}
}

// next returns when the link can start its next leg.
func (l *link) next() (float64, bool) {
	switch {
	case len(l.own) > 0 || slices.ContainsFunc(l.here, func(legs []int) bool { return len(legs) > 0 }):
		return l.free, true
	case len(l.coming) > 0:
		return max(l.free, l.coming[0].at), true
	}
	return 0, false
}

// take removes the leg that goes first at an instant.
func (l *link) take(legs []leg, when float64) int {
	for len(l.coming) > 0 && l.coming[0].at <= when {
		id := heap.Pop(&l.coming).(start).id
		for len(l.here) <= legs[id].hops {
			l.here = append(l.here, nil)
		}
		l.here[legs[id].hops] = append(l.here[legs[id].hops], id)
	}
	list := &l.own
	for hops := len(l.here) - 1; hops > 0; hops-- {
		if len(l.here[hops]) > 0 && (len(l.own) == 0 || hops > legs[l.own[0]].hops) {
			list = &l.here[hops]
			break
		}
	}
	k := l.pick(legs, *list)
	id := (*list)[k]
	copy((*list)[1:k+1], *list) // those that were passed over come next
	*list = (*list)[1:]
	l.taken++
	l.latest[[2]int{legs[id].src, legs[id].dst}] = l.taken
	return id
}

// lookAhead bounds the search for a leg between two hosts that are not busy.
const lookAhead = 64

// pick returns the place in list of the leg to start: the first, or the first one like it
// between hosts that do not carry one already.
func (l *link) pick(legs []leg, list []int) int {
	for k, id := range list[:min(len(list), lookAhead)] {
		if legs[id].hops != legs[list[0]].hops {
			break
		}
		if l.fresh(&legs[id]) {
			return k
		}
	}
	return 0
}

// fresh reports whether none of the legs that are about to run beside g has its hosts: two of
// the same hosts share one connection, and what one flow gets.
func (l *link) fresh(g *leg) bool {
	at, ok := l.latest[[2]int{g.src, g.dst}]
	return !ok || l.taken-at >= l.lanes-1
}

// sortTurns sorts what starts at the link's first pool. Sources take turns in groups of as many
// as there are lanes, so that a lane mostly goes on with its source, which needs no news.
func (s *scheduler) sortTurns(l *link) {
	if len(l.own) == 0 {
		return
	}
	place := make(map[int]int) // of a source among those of the pool
	for i, h := range s.pools[s.net.Pool[s.legs[l.own[0]].src]] {
		place[h] = i
	}
	slices.SortStableFunc(l.own, func(a, b int) int {
		x, y := &s.legs[a], &s.legs[b]
		return cmp.Or(cmp.Compare(y.hops, x.hops), cmp.Compare(place[x.src]/l.lanes, place[y.src]/l.lanes))
	})
}

// A start says when a link may start a leg, or a leg may be started.
type start struct {
	at float64
	id int
}

// starts is a heap, the earliest on top and among equals the lowest number.
type starts []start

func (q starts) Len() int { return len(q) }
func (q starts) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].id < q[j].id
}
func (q starts) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *starts) Push(x any)   { *q = append(*q, x.(start)) }
func (q *starts) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
