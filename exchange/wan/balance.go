package wan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

const (
	// calm is the part of what the fullest link needs up to which the others may be busy without being relieved. A link
	// that is to end a tenth earlier than the exchange ends in time though its flows are uneven and data for it come late.
	calm = 0.9
	// mostBalanced is of how many pools routings are balanced: the work grows with their cube.
	mostBalanced = 24
	// balanceRounds bounds how often all pairs of pools are looked at.
	balanceRounds = 16
)

// A course is a way from one pool to another that bytes may take.
type course struct {
	pools []int
	links []int
	bytes float64
}

// balanced returns r with less on links that need nearly as long as the fullest one, where others have room. The
// routing of the bound says what the fullest links carry; of the others it only knows that they
// need no longer, and is content with some that end at the same time. No link needs longer than before.
//
// Each step moves bytes of one pair of pools from one way to another until the fullest link of the first, of those that the
// second does not use, is down to the fullest of the second: a step of cycle cancelling towards the lexicographic least.
func (s *scheduler) balanced(r *plan.Routing) *plan.Routing {
	if r == nil || len(s.pools) > mostBalanced {
		return r
	}
	all := s.coursesOf(r)
	load := make([]float64, len(s.links)) // seconds
	for _, ways := range all {
		for _, c := range ways {
			for _, k := range c.links {
				load[k] += c.bytes / s.links[k].rate
			}
		}
	}
	level := calm * slices.Max(load)
	for range balanceRounds {
		moved := false
		for _, ways := range all {
			for i := range ways {
				moved = s.relieve(ways, i, load, level) || moved
			}
		}
		if !moved {
			break
		}
	}
	out := &plan.Routing{Seconds: r.Seconds}
	for _, ways := range all {
		slices.SortStableFunc(ways, func(a, b course) int { return cmp.Compare(b.bytes, a.bytes) })
		for _, c := range ways {
			if c.bytes > 0 {
				out.Paths = append(out.Paths, plan.Path{Pools: c.pools, Bytes: c.bytes})
			}
		}
	}
	return out
}

// coursesOf returns the ways of each ordered pair of pools of r: those that r has, the link of the two, and
// those by way of one other pool.
func (s *scheduler) coursesOf(r *plan.Routing) (all [][]course) {
	pools := len(s.pools)
	at := make(map[[2]int]int)
	add := func(way []int, bytes float64) {
		c := course{pools: way, bytes: bytes}
		for k := 1; k < len(way); k++ {
			link := way[k-1]*pools + way[k]
			if s.links[link].rate <= 0 {
				return
			}
			c.links = append(c.links, link)
		}
		key := [2]int{way[0], way[len(way)-1]}
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key], all = i, append(all, nil)
		}
		if !slices.ContainsFunc(all[i], func(o course) bool { return slices.Equal(o.pools, way) }) {
			all[i] = append(all[i], c)
		}
	}
	for _, p := range r.Paths {
		add(p.Pools, p.Bytes)
	}
	for _, key := range slices.SortedFunc(maps.Keys(at), func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		from, to := key[0], key[1]
		add([]int{from, to}, 0)
		for via := range pools {
			if via != from && via != to {
				add([]int{from, via, to}, 0)
			}
		}
	}
	return all
}

// leastMoved is the least part of a way's bytes that is worth moving.
const leastMoved = 1. / 256

// relieve moves bytes from ways[i] to the one of the others that takes most of them, and reports whether it did.
func (s *scheduler) relieve(ways []course, i int, load []float64, level float64) bool {
	a := &ways[i]
	best, most := -1, a.bytes*leastMoved
	for j := range ways {
		if j == i {
			continue
		}
		if n := s.movable(a, &ways[j], load, level); n > most {
			best, most = j, n
		}
	}
	if best < 0 {
		return false
	}
	b := &ways[best]
	a.bytes -= most
	b.bytes += most
	for _, k := range a.links {
		load[k] -= most / s.links[k].rate
	}
	for _, k := range b.links {
		load[k] += most / s.links[k].rate
	}
	return true
}

// movable returns how many bytes of a may take b instead.
func (s *scheduler) movable(a, b *course, load []float64, level float64) float64 {
	full := -1 // a's fullest link that b does not use
	for _, k := range a.links {
		if !slices.Contains(b.links, k) && (full < 0 || load[k] > load[full]) {
			full = k
		}
	}
	if full < 0 || load[full] <= level {
		return 0
	}
	n := min(a.bytes, (load[full]-level)*s.links[full].rate)
	for _, k := range b.links {
		if !slices.Contains(a.links, k) {
			n = min(n, (load[full]-load[k])/(1/s.links[full].rate+1/s.links[k].rate))
		}
	}
	return max(n, 0)
}
