package wan

import (
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// The routing of the bound knows rates and no latencies. Where blocks are small those decide: what would be through its own link in 40 ms is not to go by way of a third pool, 72 ms away, though all links
// together were done sooner. Each step is one of relieve (balance.go), of all that takes a way.

// A hastening moves what takes a longer way than it gains.
type hastening struct {
	s     *scheduler
	all   [][]course
	load  []float64 // as [scheduler.rates] has them: how long each is busy, in seconds
	early []float64 // likewise, with what takes more than one link, which links pass first
}

// hastened returns r with all that takes a way on a nearer one of the same two pools where it is there sooner by that, and nothing that this holds up is as late as it was.
func (s *scheduler) hastened(r *plan.Routing) *plan.Routing {
	if r == nil || len(s.pools) > mostBalanced {
		return r
	}
	all, rates, load := s.loaded(r)
	s.addNearest(all, rates)
	h := &hastening{s, all, load, make([]float64, len(load))}
	for _, ways := range all {
		for i := range ways {
			if c := &ways[i]; len(c.pools) > 2 {
				c.add(h.early, c.bytes)
			}
		}
	}
	for range balanceRounds {
		moved := false
		for _, ways := range all {
			for i := range ways {
				moved = h.shorten(ways, i) || moved
			}
		}
		if !moved {
			break
		}
	}
	return routingOf(all, r.Seconds)
}

// nearerThanStraight returns r, straight, with what has a nearer way on that; nil where nothing has.
func (s *scheduler) nearerThanStraight(r *plan.Routing) *plan.Routing {
	if r == nil {
		return nil
	}
	straight := &plan.Routing{Seconds: r.Seconds}
	for _, paths := range s.pathsOf(r, true) {
		straight.Paths = append(straight.Paths, paths...)
	}
	near := s.hastened(straight)
	if !slices.ContainsFunc(near.Paths, func(p plan.Path) bool { return len(p.Pools) > 2 }) {
		return nil
	}
	return near
}

// addNearest adds to each pair of pools the nearest way of all, where it is over more than one other pool, by the rule of Floyd (Communications of the ACM 5, 1962).
func (s *scheduler) addNearest(all [][]course, rates []float64) {
	pools := len(s.pools)
	took, before := make([]float64, pools*pools), make([]int, pools*pools) // [from*pools+to]: how long the way is, and the last pool on it
	for k := range took {
		took[k], before[k] = math.Inf(1), k/pools
		if s.links[k].rate > 0 {
			took[k] = s.links[k].latency
		}
	}
	for via := range pools {
		for from := range pools {
			for to := range pools {
				if by := took[from*pools+via] + took[via*pools+to]; from != via && via != to && from != to && by < took[from*pools+to] {
					took[from*pools+to], before[from*pools+to] = by, before[via*pools+to]
				}
			}
		}
	}
	for i, ways := range all {
		from, to := ways[0].pools[0], ways[0].pools[len(ways[0].pools)-1]
		way := []int{to}
		for at := to; at != from; way = append(way, at) {
			at = before[from*pools+at]
		}
		slices.Reverse(way)
		if len(way) <= 3 || slices.ContainsFunc(ways, func(o course) bool { return slices.Equal(o.pools, way) }) {
			continue
		}
		if c, ok := s.courseOf(way, 0, rates); ok {
			all[i] = append(ways, c)
		}
	}
}

// add puts n bytes on c.
func (h *hastening) add(c *course, n float64) {
	c.bytes += n
	c.add(h.load, n)
	if len(c.pools) > 2 {
		c.add(h.early, n)
	}
}

// shorten is hastened for what goes by ways[i]. It reports whether it has moved that.
func (h *hastening) shorten(ways []course, i int) bool {
	a := &ways[i]
	n, best := a.bytes, -1
	if n == 0 {
		return false
	}
	soonest := h.reaches(a) / gain
	for j := range ways {
		b := &ways[j]
		if j == i || h.way(a)-h.way(b) < (gain-1)*soonest {
			continue // bytes alone are for balanced to decide
		}
		h.add(a, -n)
		h.add(b, n)
		if end := h.latest(b, soonest); end < soonest {
			best, soonest = j, end
		}
		h.add(b, -n)
		h.add(a, n)
	}
	if best < 0 {
		return false
	}
	h.add(&ways[best], n)
	h.add(a, -n)
	a.bytes = 0
	return true
}

// link is the k-th link of c.
func (h *hastening) link(c *course, k int) int { return c.pools[k-1]*len(h.s.pools) + c.pools[k] }

// way is how long the links of c are, in seconds.
func (h *hastening) way(c *course) (seconds float64) {
	for k := 1; k < len(c.pools); k++ {
		seconds += h.s.links[h.link(c, k)].latency
	}
	return seconds
}

// reaches is when the last byte of c is there, in seconds: behind all that is relayed over its links, and when each of them is through with all.
func (h *hastening) reaches(c *course) float64 {
	end, first := 0., 0.
	for k := 1; k < len(c.pools); k++ {
		at := h.link(c, k)
		end = max(end, h.load[at]+h.s.links[at].latency)
		first = max(first, h.early[at])
	}
	return max(end, first+h.way(c))
}

// latest is the latest end of b and of what uses a link that b does; as soon as that is most it is of no interest.
func (h *hastening) latest(b *course, most float64) float64 {
	end := h.reaches(b)
	for _, ways := range h.all {
		for k := range ways {
			if end >= most {
				return end
			}
			c := &ways[k]
			if c == b || c.bytes <= 0 {
				continue
			}
			for _, u := range c.uses {
				if b.of(u.at) > 0 {
					end = max(end, h.reaches(c))
					break
				}
			}
		}
	}
	return end
}
