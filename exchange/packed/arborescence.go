package packed

import "math"

// arborescence returns the parent of every node in a spanning tree of least cost that is
// directed away from root, -1 for the root: Chu & Liu (Scientia Sinica 14, 1965), Edmonds (J. Res.
// NBS 71B, 1967). cost is n×n, [from*n+to], at least 0, +Inf where there is no link. ok is
// false where root does not reach every node. Of equal costs the lower node is the parent.
//
// Every node takes its cheapest link in. Where these make a cycle it is contracted to one node,
// for which a link into the cycle costs what it has more than the cycle's own link that it
// replaces. A level is O(n²), and there are at most n.
func arborescence(n, root int, cost []float64) (parent []int, ok bool) {
	parent = make([]int, n)
	for to := range n {
		parent[to] = -1
		if to == root {
			continue
		}
		least := math.Inf(1)
		for from := range n {
			if c := cost[from*n+to]; from != to && c < least {
				least, parent[to] = c, from
			}
		}
		if parent[to] < 0 {
			return nil, false
		}
	}
	cycle := cycleOf(parent)
	if cycle == nil {
		return parent, true
	}
	// The nodes outside the cycle keep their order; the cycle is the last node.
	inside := make([]bool, n)
	for _, v := range cycle {
		inside[v] = true
	}
	var outside []int
	at := make([]int, n)
	for v := range n {
		if !inside[v] {
			at[v] = len(outside)
			outside = append(outside, v)
		}
	}
	m := len(outside) + 1
	small := make([]float64, m*m)
	into, out := make([]int, m), make([]int, m) // the node of the cycle that a link ends, or begins, at
	for i, v := range outside {
		for j, w := range outside {
			small[i*m+j] = cost[v*n+w]
		}
		small[i*m+m-1], small[(m-1)*m+i] = math.Inf(1), math.Inf(1)
		for _, c := range cycle {
			// Rounding must not make a link cheaper than free.
			if more := max(0, cost[v*n+c]-cost[parent[c]*n+c]); more < small[i*m+m-1] {
				small[i*m+m-1], into[i] = more, c
			}
			if x := cost[c*n+v]; x < small[(m-1)*m+i] {
				small[(m-1)*m+i], out[i] = x, c
			}
		}
	}
	above, ok := arborescence(m, at[root], small)
	if !ok {
		return nil, false
	}
	for i, v := range outside {
		switch p := above[i]; {
		case p < 0:
			parent[v] = -1
		case p == m-1:
			parent[v] = out[i]
		default:
			parent[v] = outside[p]
		}
	}
	enter := above[m-1] // the cycle does not hold the root, so it has a parent
	parent[into[enter]] = outside[enter]
	return parent, true
}

// cycleOf returns the nodes of one cycle among parents, or nil.
func cycleOf(parent []int) []int {
	seen := make([]int, len(parent)) // 1 + the walk that came by
	for start := range parent {
		v := start
		for v >= 0 && seen[v] == 0 {
			seen[v] = start + 1
			v = parent[v]
		}
		if v < 0 || seen[v] != start+1 {
			continue
		}
		cycle := []int{v}
		for w := parent[v]; w != v; w = parent[w] {
			cycle = append(cycle, w)
		}
		return cycle
	}
	return nil
}
