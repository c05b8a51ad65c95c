package ring

import "github.com/gridagent/gridagent/exchange/plan"

// LR1 returns the ring of Algorithm 1 (§4.1) and its maximum path length: the hosts of
// the switches in the order of a depth-first search. It is free of contention on every
// tree (Theorem 1) and looks at nothing else.
//
// The paper leaves open where the search begins and which neighbour comes first; the
// path length depends on both. Here: from the switch of rank 0, neighbours in the order
// of the file, hosts of one switch by rank. So the ring begins with rank 0.
func LR1(t *plan.Topology) (order []int, path int) {
	order = depthFirst(t, t.Home(0))
	path, _ = Measure(t, order)
	return order, path
}

func depthFirst(t *plan.Topology, root int) []int {
	k := newTree(t) // switches without hosts add nothing to the ring
	order := make([]int, 0, len(t.Hosts()))
	for _, s := range k.hang(root).preorder {
		order = append(order, k.hosts[s]...)
	}
	return order
}
