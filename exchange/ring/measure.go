package ring

import "github.com/gridagent/gridagent/exchange/plan"

// Measure returns what one step of a ring costs on t, in which every rank of order sends
// to the next one and the last to the first: the largest number of switches on the way of
// one message (the paper's maximum path length, §3), and the largest number of messages
// that one directed link carries. A ring with load 1 is free of contention. A ring of one
// host sends nothing and has 0 and 0.
//
// Any order of ranks of t can be judged, such as that of a ring that knows of no switches.
func Measure(t *plan.Topology, order []int) (path, load int) {
	if len(order) < 2 {
		return 0, 0
	}
	carried := make([]int, t.NumLinks())
	var links []plan.LinkID
	for i, h := range order {
		links = t.Path(links[:0], h, order[(i+1)%len(order)])
		path = max(path, len(links)-1) // k switches are on a way of k+1 links
		for _, l := range links {
			carried[l]++
			load = max(load, carried[l])
		}
	}
	return path, load
}

// fromRankZero turns a ring so that rank 0 stands first: equal rings are equal slices.
func fromRankZero(order []int) []int {
	for i, h := range order {
		if h == 0 {
			return append(order[i:len(order):len(order)], order[:i]...)
		}
	}
	return order
}
