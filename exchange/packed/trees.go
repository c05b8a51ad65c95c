package packed

import "slices"

// A tree is a way for some bytes of one pool to all others.
type tree struct {
	root   int
	parent []int // by pool, -1 at the root
	bytes  int64
}

// alike is how much more a tree may cost that others of the pool's bytes take already: every tree more
// is pieces more.
const alike = 1.02

// like returns the cheapest tree that other parts of root take, if it costs little more than parent.
func (r *router) like(root int, parent []int) []int {
	cost := func(parent []int) (sum float64) {
		for to, from := range parent {
			if from >= 0 {
				sum += r.costs[from*r.n+to]
			}
		}
		return sum
	}
	best, least := parent, alike*cost(parent)
	var last []int
	for i := range r.parts {
		q := r.parts[i].parent
		if r.parts[i].root != root || q == nil || last != nil && &q[0] == &last[0] {
			continue
		}
		last = q
		if c := cost(q); c < least {
			best, least = q, c
		}
	}
	return best
}

// collect joins parts of one tree.
func collect(parts []part) []tree {
	var trees []tree
	for _, p := range parts {
		i := slices.IndexFunc(trees, func(t tree) bool { return t.root == p.root && slices.Equal(t.parent, p.parent) })
		if i < 0 {
			i = len(trees)
			trees = append(trees, tree{root: p.root, parent: p.parent})
		}
		trees[i].bytes += p.bytes
	}
	slices.SortStableFunc(trees, func(a, b tree) int {
		if a.root != b.root {
			return a.root - b.root
		}
		return b.relays() - a.relays()
	})
	return trees
}

// relays returns how many pools get the bytes from another than the root.
func (t *tree) relays() (n int) {
	for _, from := range t.parent {
		if from >= 0 && from != t.root {
			n++
		}
	}
	return n
}
