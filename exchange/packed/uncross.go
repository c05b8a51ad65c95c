package packed

import "slices"

// An uncrosser sends straight what two pools relay for each other, where no link that is as full gets more for it. The prices do not see it: a link that is never
// full costs nothing. Hosts pay for a relay with their ports, and it waits for what comes before it.
type uncrosser struct {
	*sites
	trees []tree
	load  []float64 // [from*n+to], seconds
	was   []float64 // load, before the last move
}

// uncrossings bounds the search: pairs of trees that are looked at.
const uncrossings = 1 << 14

func (u *uncrosser) run() {
	clear(u.load)
	u.was = make([]float64, len(u.load))
	for i := range u.trees {
		u.put(&u.trees[i], u.trees[i].bytes)
	}
	straight := make([]tree, len(u.trees)) // what becomes of each, with the bytes that were moved there
	for i := range u.trees {
		straight[i] = u.straight(&u.trees[i])
	}
	looked := 0
	for i := range u.trees {
		for j := i - 1; j >= 0 && looked < uncrossings; j-- {
			a, b := &u.trees[i], &u.trees[j]
			if a.root == b.root || a.relays() == 0 || b.relays() == 0 {
				continue
			}
			looked++
			for n := min(a.bytes, b.bytes); n >= grain; n = min(n/2, a.bytes, b.bytes) {
				copy(u.was, u.load)
				u.move(a, &straight[i], n)
				u.move(b, &straight[j], n)
				if u.relieves() {
					continue
				}
				u.move(a, &straight[i], -n)
				u.move(b, &straight[j], -n)
			}
		}
	}
	var all []part
	for _, t := range append(u.trees, straight...) {
		if t.bytes > 0 {
			all = append(all, part(t))
		}
	}
	u.trees = collect(all)
}

// put adds the load of n bytes on t's links.
func (u *uncrosser) put(t *tree, n int64) {
	for to, from := range t.parent {
		if from >= 0 {
			u.load[from*u.n+to] += float64(n) / float64(u.capacity[from*u.n+to])
		}
	}
}

// move takes n bytes from one tree to another.
func (u *uncrosser) move(from, to *tree, n int64) {
	u.put(from, -n)
	u.put(to, n)
	from.bytes -= n
	to.bytes += n
}

// relieves reports whether the links that the last moves have put bytes on end no later than those did which they have
// taken bytes from.
func (u *uncrosser) relieves() bool {
	more, less := 0.0, 0.0
	for e, l := range u.load {
		switch d := l - u.was[e]; {
		case d > 1e-9*l: // sums differ in their last digits
			more = max(more, l+u.latency[e])
		case d < -1e-9*l:
			less = max(less, u.was[e]+u.latency[e])
		}
	}
	return more <= less
}

// straight returns the tree, of no bytes, that is t but for the links that root has itself.
func (u *uncrosser) straight(t *tree) tree {
	s := tree{root: t.root, parent: slices.Clone(t.parent)}
	for to := range u.n {
		if to != t.root && u.capacity[t.root*u.n+to] > 0 {
			s.parent[to] = t.root
		}
	}
	return s
}
