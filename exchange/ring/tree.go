package ring

import "github.com/gridagent/gridagent/exchange/plan"

// A tree is a switch tree as ring constructions see it: some switches may be cut off.
type tree struct {
	*plan.Topology
	hosts  [][]int // per switch: its hosts, ascending
	degree []int   // per switch: neighbouring switches that are left
	gone   []bool  // per switch: cut off
}

func newTree(t *plan.Topology) *tree {
	n := len(t.Switches())
	k := &tree{Topology: t, hosts: make([][]int, n), degree: make([]int, n), gone: make([]bool, n)}
	for h := range t.Hosts() {
		k.hosts[t.Home(h)] = append(k.hosts[t.Home(h)], h)
	}
	for s := range n {
		k.degree[s] = len(t.Adjacent(s))
	}
	return k
}

// trim cuts off leaf switches without hosts until there are none left: they carry
// nothing. The paper presumes it (§3); Theorem 2 and the optimal ring are wrong without it.
func (k *tree) trim() *tree {
	var bare []int
	check := func(s int) {
		if !k.gone[s] && k.degree[s] <= 1 && len(k.hosts[s]) == 0 {
			k.gone[s] = true
			bare = append(bare, s)
		}
	}
	for s := range k.hosts {
		check(s)
	}
	for len(bare) > 0 {
		s := bare[len(bare)-1]
		bare = bare[:len(bare)-1]
		for _, next := range k.Adjacent(s) {
			if !k.gone[next] {
				k.degree[next]--
				check(next)
			}
		}
	}
	return k
}

// A rooted is a tree hung from one switch.
type rooted struct {
	*tree
	preorder []int   // the switches left, as a depth-first search arrives at them
	children [][]int // per switch, in the order of the file
}

// hang roots the tree at a switch that is left; neighbours come in the order of the file.
func (k *tree) hang(root int) *rooted {
	r := &rooted{tree: k, children: make([][]int, len(k.hosts))}
	parent := make([]int, len(k.hosts))
	parent[root] = -1
	for stack := []int{root}; len(stack) > 0; {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		r.preorder = append(r.preorder, s)
		for _, next := range k.Adjacent(s) {
			if next != parent[s] && !k.gone[next] {
				parent[next] = s
				r.children[s] = append(r.children[s], next)
			}
		}
		for i := len(r.children[s]) - 1; i >= 0; i-- { // the first child is to be on top
			stack = append(stack, r.children[s][i])
		}
	}
	return r
}
