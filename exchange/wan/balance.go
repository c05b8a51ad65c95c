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
	uses  []use
	bytes float64
}

// A use says how much of a link, or of the ports of a pool in between, a byte of a course takes: where it is among [scheduler.rates], and seconds. Of the link back the answers to the byte take some.
type use struct {
	at      int
	seconds float64
}

// of returns how much a byte of c takes of what is at.
func (c *course) of(at int) float64 {
	for _, u := range c.uses {
		if u.at == at {
			return u.seconds
		}
	}
	return 0
}

// rates returns those of all links, P×P, and then of the ports of each pool's hosts together, in and out, in bytes a second. Beside them it returns how long
// these are busy, in seconds, with what the hosts have for others.
func (s *scheduler) rates() (rates, load []float64) {
	pools := len(s.pools)
	rates = make([]float64, len(s.links)+2*pools)
	for k := range s.links {
		rates[k] = s.links[k].rate
	}
	load = make([]float64, len(rates))
	for h, k := range s.net.Pool {
		in, out := s.ports(k)
		rates[in] += float64(s.net.Ingress[h])
		rates[out] += float64(s.net.Egress[h])
		for o := range s.net.Pool {
			if o != h {
				load[in] += float64(s.sizes.Of(o, h))
				load[out] += float64(s.sizes.Of(h, o))
			}
		}
	}
	for k := len(s.links); k < len(rates); k++ {
		rates[k] = max(rates[k], 1)
		load[k] /= rates[k]
	}
	return rates, load
}

// ports returns where the ports of a pool are among rates.
func (s *scheduler) ports(pool int) (in, out int) {
	in = len(s.links) + 2*pool
	return in, in + 1
}

// balanced returns r with less on links and ports that need nearly as long as the fullest one, where others have room. The
// routing of the bound says what the fullest ones carry; of the others it only knows that they
// need no longer, and is content with some that end at the same time. None needs longer than before.
//
// Each step moves bytes of one pair of pools from one way to another until the fullest link or port of the first, of those that the
// second does not use, is down to the fullest of the second: a step of cycle cancelling towards the lexicographic least.
func (s *scheduler) balanced(r *plan.Routing) *plan.Routing {
	if r == nil || len(s.pools) > mostBalanced {
		return r
	}
	all, _, load := s.loaded(r)
	level := calm * slices.Max(load)
	for range balanceRounds {
		moved := false
		for _, ways := range all {
			for i := range ways {
				moved = relieve(ways, i, load, level) || moved
			}
		}
		if !moved {
			break
		}
	}
	return routingOf(all, r.Seconds)
}

// loaded returns the courses of r, the rates of what they use, and how long they keep that busy, beside what rates says of it.
func (s *scheduler) loaded(r *plan.Routing) (all [][]course, rates, load []float64) {
	rates, load = s.rates()
	all = s.coursesOf(r, rates)
	for _, ways := range all {
		for i := range ways {
			ways[i].add(load, ways[i].bytes)
		}
	}
	return all, rates, load
}

// routingOf is the routing over the courses that have bytes.
func routingOf(all [][]course, seconds float64) *plan.Routing {
	out := &plan.Routing{Seconds: seconds}
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
func (s *scheduler) coursesOf(r *plan.Routing, rates []float64) (all [][]course) {
	pools := len(s.pools)
	at := make(map[[2]int]int)
	add := func(way []int, bytes float64) {
		c, ok := s.courseOf(way, bytes, rates)
		if !ok {
			return
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

// courseOf returns the course of bytes that take a way, and false where a link of that has no rate.
func (s *scheduler) courseOf(way []int, bytes float64, rates []float64) (course, bool) {
	c := course{pools: way, bytes: bytes}
	for k := 1; k < len(way); k++ {
		link := way[k-1]*len(s.pools) + way[k]
		if s.links[link].rate <= 0 {
			return c, false
		}
		c.uses = append(c.uses, use{link, 1 / rates[link]})
		if back := s.back(link); s.links[link].answers > 0 {
			c.uses = append(c.uses, use{back, s.links[link].answers / rates[back]})
		}
		if k < len(way)-1 {
			in, out := s.ports(way[k])
			c.uses = append(c.uses, use{in, 1 / rates[in]}, use{out, 1 / rates[out]})
		}
	}
	return c, true
}

// leastMoved is the least part of a way's bytes that is worth moving.
const leastMoved = 1. / 256

// add puts n bytes of c on what they use.
func (c *course) add(load []float64, n float64) {
	for _, u := range c.uses {
		load[u.at] += n * u.seconds
	}
}

// relieve moves bytes from ways[i] to the one of the others that takes most of them, and reports whether it did.
func relieve(ways []course, i int, load []float64, level float64) bool {
	a := &ways[i]
	best, most := -1, a.bytes*leastMoved
	for j := range ways {
		if j == i {
			continue
		}
		if n := movable(a, &ways[j], load, level); n > most {
			best, most = j, n
		}
	}
	if best < 0 {
		return false
	}
	b := &ways[best]
	a.bytes -= most
	b.bytes += most
	a.add(load, -most)
	b.add(load, most)
	return true
}

// movable returns how many bytes of a may take b instead.
func movable(a, b *course, load []float64, level float64) float64 {
	full, relief := -1, 0.0 // what is fullest of that of which a takes more, and how much more
	for _, u := range a.uses {
		if d := u.seconds - b.of(u.at); d > 0 && (full < 0 || load[u.at] > load[full]) {
			full, relief = u.at, d
		}
	}
	if full < 0 || load[full] <= level {
		return 0
	}
	n := min(a.bytes, (load[full]-level)/relief)
	for _, u := range b.uses {
		if d := u.seconds - a.of(u.at); d > 0 {
			n = min(n, (load[full]-load[u.at])/(relief+d))
		}
	}
	return max(n, 0)
}
