package openshop

import (
	"cmp"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A message is a block that is not empty, with what it takes.
type message struct {
	src, dst int
	bytes    int64
	seconds  float64
}

// A shop is a schedule that is being made, at some time.
type shop struct {
	messages []message // the most urgent first; the rest are numbers of them
	from, to [][]int   // by host: messages that have not begun, the most urgent first
	sends    []bool    // by host: it is sending
	receives []bool
	running  []end // one of each host that sends
}

// schedule returns the messages in the order in which they begin, in the shorter of two schedules: the messages of the busiest hosts go first in one, and the longest in
// the other. Of matrices drawn at random for 6 to 24 hosts one of them mostly ends at the bound, and the other 1 or 2 % later.
func schedule(n int, sizes plan.AlltoallSizes, seconds func(src, dst int, bytes int64) float64) []message {
	var all []message
	busy := make([]float64, 2*n) // seconds of all messages out of each host, then into it
	for src := range n {
		for dst := range n {
			bytes := sizes.Of(src, dst)
			if src == dst || bytes == 0 {
				continue
			}
			m := message{src, dst, bytes, seconds(src, dst, bytes)}
			busy[src] += m.seconds
			busy[n+dst] += m.seconds
			all = append(all, m)
		}
	}
	load := func(m message) float64 { return busy[m.src] + busy[n+m.dst] }
	// What is equal goes by distance: equal blocks of equal hosts make the shift exchange.
	rest := func(a, b message) int {
		return cmp.Or(cmp.Compare((a.dst-a.src+n)%n, (b.dst-b.src+n)%n), cmp.Compare(a.src, b.src))
	}
	slices.SortFunc(all, func(a, b message) int {
		return cmp.Or(cmp.Compare(load(b), load(a)), cmp.Compare(b.seconds, a.seconds), rest(a, b))
	})
	first, end := run(n, all)
	slices.SortFunc(all, func(a, b message) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(load(b), load(a)), rest(a, b))
	})
	if second, sooner := run(n, all); sooner < end {
		return second
	}
	return first
}

// run begins messages, the most urgent first, as soon as their hosts are free. It returns them in the order in which they begin, and when the last one has ended.
func run(n int, messages []message) (order []message, now float64) {
	s := shop{messages: messages, from: make([][]int, n), to: make([][]int, n), sends: make([]bool, n), receives: make([]bool, n)}
	ready := make([]int, len(messages)) // what may begin: at first all
	for i, m := range messages {
		ready[i] = i
		s.from[m.src], s.to[m.dst] = append(s.from[m.src], i), append(s.to[m.dst], i)
	}
	order = make([]message, 0, len(messages))
	for {
		for _, i := range ready {
			if m := messages[i]; !s.sends[m.src] && !s.receives[m.dst] {
				s.begin(i, now)
				order = append(order, m)
			}
		}
		if len(s.running) == 0 {
			return order, now
		}
		now, ready = s.end(ready[:0])
	}
}

// begin begins message i at now.
func (s *shop) begin(i int, now float64) {
	m := s.messages[i]
	s.sends[m.src], s.receives[m.dst] = true, true
	s.running = append(s.running, end{now + m.seconds, m.src, m.dst})
	at, _ := slices.BinarySearch(s.from[m.src], i)
	s.from[m.src] = slices.Delete(s.from[m.src], at, at+1)
	at, _ = slices.BinarySearch(s.to[m.dst], i)
	s.to[m.dst] = slices.Delete(s.to[m.dst], at, at+1)
}

// end goes on to when the next message ends, and ends all that do then. It returns that time, and in room the messages that may begin:
// those of the hosts that are free now, the most urgent first.
func (s *shop) end(room []int) (now float64, ready []int) {
	now, ready = math.Inf(1), room
	for _, e := range s.running {
		now = min(now, e.at)
	}
	s.running = slices.DeleteFunc(s.running, func(e end) bool {
		if e.at > now {
			return false
		}
		s.sends[e.src], s.receives[e.dst] = false, false
		ready = append(append(ready, s.from[e.src]...), s.to[e.dst]...)
		return true
	})
	slices.Sort(ready)
	return now, slices.Compact(ready)
}

// An end is when a message has left its source and arrived.
type end struct {
	at       float64 // seconds
	src, dst int
}
