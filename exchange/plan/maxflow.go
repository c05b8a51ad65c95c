package plan

import "math"

// A flowGraph is a dense directed graph with real capacities, for the few dozen pools
// of a grid. Dinic's algorithm; edges to the sink that a path of two saturates, which
// here are most, are found in its first round.
type flowGraph struct {
	n     int
	left  []float64 // n×n residual capacities, [from*n+to]
	level []int
	next  []int // per node: the first neighbour not yet exhausted in this round
	scale float64
}

func newFlowGraph(n int) *flowGraph {
	return &flowGraph{n: n, left: make([]float64, n*n), level: make([]int, n), next: make([]int, n)}
}

func (g *flowGraph) add(from, to int, capacity float64) {
	g.left[from*g.n+to] += capacity
	g.scale = max(g.scale, capacity)
}

// open reports whether an edge has residual capacity beyond what rounding leaves behind.
func (g *flowGraph) open(from, to int) bool {
	return g.left[from*g.n+to] > 1e-14*g.scale
}

// minCut saturates the graph from source to sink and returns which nodes stay on the
// source's side of the minimum cut that is nearest to the sink.
func (g *flowGraph) minCut(source, sink int) []bool {
	for g.layer(source, sink) {
		clear(g.next)
		for g.push(source, sink, math.Inf(1)) > 0 {
		}
	}
	return g.sourceSide(sink)
}

// layer numbers nodes by their distance from source in the residual graph.
func (g *flowGraph) layer(source, sink int) bool {
	for i := range g.level {
		g.level[i] = -1
	}
	g.level[source] = 0
	for queue := []int{source}; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		for w := range g.n {
			if g.level[w] < 0 && g.open(v, w) {
				g.level[w] = g.level[v] + 1
				queue = append(queue, w)
			}
		}
	}
	return g.level[sink] >= 0
}

// push sends up to limit from v to the sink along growing levels.
func (g *flowGraph) push(v, sink int, limit float64) float64 {
	if v == sink {
		return limit
	}
	for ; g.next[v] < g.n; g.next[v]++ {
		w := g.next[v]
		if g.level[w] != g.level[v]+1 || !g.open(v, w) {
			continue
		}
		if f := g.push(w, sink, min(limit, g.left[v*g.n+w])); f > 0 {
			g.left[v*g.n+w] -= f
			g.left[w*g.n+v] += f
			return f
		}
	}
	return 0
}

// sourceSide returns the nodes that cannot reach the sink any more. Of all minimum
// cuts this one has the smallest sink side, and it never is empty: the sink is in it.
func (g *flowGraph) sourceSide(sink int) []bool {
	side := make([]bool, g.n)
	for i := range side {
		side[i] = true
	}
	side[sink] = false
	for queue := []int{sink}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		for v := range g.n {
			if side[v] && g.open(v, w) {
				side[v] = false
				queue = append(queue, v)
			}
		}
	}
	return side
}
