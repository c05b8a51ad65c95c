package pools

import "github.com/gridagent/gridagent/probe/netmap"

// A spanningTree joins all hosts by the links that are widest in their slower direction.
// The components of the links that reach a threshold are those of the tree's edges that
// reach it, which makes each threshold a matter of n-1 edges and not of n².
type spanningTree struct {
	parent []int                // of each host, -1 for the first
	width  []netmap.BytesPerSec // of the edge to the parent
	order  []int                // parents before children
}

// newSpanningTree grows the tree of s with Prim's algorithm. Which of several equal edges
// it takes does not matter: the components are the same.
func newSpanningTree(s *netmap.Snapshot) *spanningTree {
	n := s.N()
	t := &spanningTree{parent: make([]int, n), width: make([]netmap.BytesPerSec, n), order: make([]int, 0, n)}
	joined := make([]bool, n)
	t.parent[0] = -1
	next := 0
	for range n {
		joined[next] = true
		t.order = append(t.order, next)
		at := next
		next = -1
		for h := range n {
			if joined[h] {
				continue
			}
			out, _ := s.Bandwidth(at, h)
			back, _ := s.Bandwidth(h, at)
			if w := min(out, back); w > t.width[h] {
				t.width[h], t.parent[h] = w, at
			}
			if next < 0 || t.width[h] > t.width[next] {
				next = h
			}
		}
	}
	return t
}

// split returns the components of hosts at the threshold low. hosts must be a component at
// some lower threshold, so that the tree's edges between them join them.
func (t *spanningTree) split(hosts []int, low netmap.BytesPerSec) [][]int {
	in := make([]bool, len(t.parent))
	for _, h := range hosts {
		in[h] = true
	}
	part := make([]int, len(t.parent)) // of each host seen
	var parts [][]int
	for _, h := range t.order {
		if !in[h] {
			continue
		}
		if up := t.parent[h]; up >= 0 && in[up] && t.width[h] >= low {
			part[h] = part[up]
			parts[part[h]] = append(parts[part[h]], h)
			continue
		}
		part[h] = len(parts)
		parts = append(parts, []int{h})
	}
	return parts
}
