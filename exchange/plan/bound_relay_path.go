package plan

import (
	"math"
	"slices"
)

// shortest fills dist and before: paths by length, then by fewest links, then by lowest pool (Dijkstra).
func (r *relaying) shortest() {
	p := r.pools
	done, links := make([]bool, p), make([]int, p)
	for from := range p {
		dist, before := r.dist[from*p:(from+1)*p], r.before[from*p:(from+1)*p]
		for k := range p {
			dist[k], before[k], done[k], links[k] = math.Inf(1), -1, false, 0
		}
		dist[from] = 0
		for {
			at := -1
			for k := range p {
				if !done[k] && !math.IsInf(dist[k], 1) && (at < 0 || dist[k] < dist[at] || dist[k] == dist[at] && links[k] < links[at]) {
					at = k
				}
			}
			if at < 0 {
				break
			}
			done[at] = true
			base := dist[at]
			if at != from {
				if base += r.through[at]; r.out[at] <= 0 || r.in[at] <= 0 {
					continue // it cannot relay
				}
			}
			for to := range p {
				if r.capacity[at*p+to] <= 0 || done[to] || to == at {
					continue
				}
				way := base + r.lengthOf[at*p+to]
				if way < dist[to] || way == dist[to] && links[at]+1 < links[to] {
					dist[to], before[to], links[to] = way, at, links[at]+1
				}
			}
		}
	}
}

// path returns the pools of the shortest path.
func (r *relaying) path(from, to int) []int {
	path := []int{to}
	for to != from {
		to = r.before[from*r.pools+to]
		path = append(path, to)
	}
	slices.Reverse(path)
	return path
}

// links returns how many links the shortest path of a demand has.
func (r *relaying) links(pair int) int {
	n, from := 0, pair/r.pools
	for to := pair % r.pools; to != from; to = r.before[from*r.pools+to] {
		n++
	}
	return n
}
