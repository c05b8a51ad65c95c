package plan

import "math/rand/v2"

// The searches say which links they keep: those over which they reach a switch for the
// first time. What is not connected they do not reach.

func (g *Graph) breadthFirst(root int) (kept []bool) {
	kept = make([]bool, len(g.links))
	reached := make([]bool, len(g.switches))
	if len(reached) == 0 { // which NewTopology refuses
		return kept
	}
	reached[root] = true
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		for _, l := range g.cables[s] {
			if next := g.across(l, s); !reached[next] {
				reached[next], kept[l] = true, true
				queue = append(queue, next)
			}
		}
	}
	return kept
}

// depthFirst keeps its own stack: a graph may be as deep as it has switches.
func (g *Graph) depthFirst(root int) (kept []bool) {
	kept = make([]bool, len(g.links))
	reached := make([]bool, len(g.switches))
	tried := make([]int, len(g.switches)) // per switch: how many of its cables
	reached[root] = true
	for stack := []int{root}; len(stack) > 0; {
		s := stack[len(stack)-1]
		if tried[s] == len(g.cables[s]) {
			stack = stack[:len(stack)-1]
			continue
		}
		l := g.cables[s][tried[s]]
		tried[s]++
		if next := g.across(l, s); !reached[next] {
			reached[next], kept[l] = true, true
			stack = append(stack, next)
		}
	}
	return kept
}

func (g *Graph) randomLinks(rng *rand.Rand) (kept []bool) {
	kept = make([]bool, len(g.links))
	group := make([]int, len(g.switches)) // union-find
	for s := range group {
		group[s] = s
	}
	find := func(s int) int {
		for group[s] != s {
			group[s] = group[group[s]]
			s = group[s]
		}
		return s
	}
	for _, l := range rng.Perm(len(g.links)) {
		a, b := find(g.links[l][0]), find(g.links[l][1])
		if a != b {
			group[a], kept[l] = b, true
		}
	}
	return kept
}

// across returns the other end of link l at switch s.
func (g *Graph) across(l, s int) int {
	if g.links[l][0] == s {
		return g.links[l][1]
	}
	return g.links[l][0]
}
