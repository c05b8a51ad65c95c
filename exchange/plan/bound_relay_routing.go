package plan

import (
	"cmp"
	"slices"
)

// A Routing divides what pools have for each other among paths over pools.
type Routing struct {
	Seconds float64 // that the fullest link, or the ports of the fullest relaying pool, need
	Paths   []Path  // by first pool, last pool, most bytes first
}

// A Path is what goes from its first pool to its last one by way of those between.
type Path struct {
	Pools []int // two at least, no pool twice
	Bytes float64
}

// basicPaths returns the paths of the basis, by demand.
func (r *relaying) basicPaths() map[int][]Path {
	paths := make(map[int][]Path)
	for i, v := range r.s.basis {
		if path := r.paths[v]; path != nil && r.s.x[i] > 1e-9 {
			pair := path[0]*r.pools + path[len(path)-1]
			paths[pair] = append(paths[pair], Path{path, r.s.x[i] * r.bytes})
		}
	}
	for pair, of := range paths { // without what rounding has left
		sum := 0.0
		for _, q := range of {
			sum += q.Bytes
		}
		for k := range of {
			of[k].Bytes *= r.between[pair] / sum
		}
	}
	for _, pair := range r.demands {
		if len(paths[pair]) == 0 { // a demand below all rounding
			paths[pair] = []Path{{r.path(pair/r.pools, pair%r.pools), r.between[pair]}}
		}
	}
	return paths
}

// routing counts what paths put on links and ports.
func (r *relaying) routing(paths map[int][]Path) *Routing {
	p := r.pools
	load := make([]float64, p*p)
	through := make([]float64, p)
	made := &Routing{}
	for _, pair := range r.demands {
		of := slices.Clone(paths[pair])
		slices.SortFunc(of, func(a, b Path) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(len(a.Pools), len(b.Pools)), slices.Compare(a.Pools, b.Pools))
		})
		made.Paths = append(made.Paths, of...)
		for _, q := range of {
			for k := 1; k < len(q.Pools); k++ {
				link := q.Pools[k-1]*p + q.Pools[k]
				load[link] += q.Bytes
				if back := r.back(link); r.capacity[back] > 0 {
					load[back] += r.answers[link] * q.Bytes
				}
			}
			for _, relay := range q.Pools[1 : len(q.Pools)-1] {
				through[relay] += q.Bytes
			}
		}
	}
	fill := func(bytes, rate float64) {
		if bytes > 0 {
			made.Seconds = max(made.Seconds, bytes/rate)
		}
	}
	for pair := range load {
		fill(load[pair], r.capacity[pair])
	}
	for k := range p {
		fill(through[k]+r.ownOut[k], r.out[k])
		fill(through[k]+r.ownIn[k], r.in[k])
	}
	return made
}
