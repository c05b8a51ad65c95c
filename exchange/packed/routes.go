package packed

import (
	"fmt"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// The search for shares of trees.
const (
	// mostShares is into how many parts all bytes are divided while they are moved: 1/400 of all is
	// less than 1 % of any link that binds. Among many sites each part may become a piece with a tree of its
	// own, so there are fewer.
	mostShares = 400
	// enough is the load over the bound at which the search ends.
	enough = 1.002
	// maxWork bounds the search: links looked at. It is some 20 ms of one core; beyond some 30 sites
	// it cuts the search short.
	maxWork = 1 << 21
)

// steepness is α in the price exp(α·load) of a link, load in units of the bound, sweep by
// sweep: gentle prices first, which see all links, then steep ones, which see the fullest. An
// optimum of price α is off by about ln(links)/α.
var steepness = []float64{8, 16, 32, 64, 128, 256, 512, 512, 512}

// A router moves shares of bytes between trees.
type router struct {
	*sites
	load  []float64 // [from*n+to], seconds
	later []float64 // [from*n+to], seconds: of load, what starts in another pool
	unit  float64   // seconds: what the prices count in
	parts []part
	costs []float64
	work  int
}

// A part is a share of the bytes of a pool.
type part struct {
	root   int
	parent []int
	bytes  int64
}

// routes returns the trees on which the bytes of every pool travel, those of each pool
// together and the ones over most relays first. bound is the cut bound of the pools in seconds.
func (s *sites) routes(bound float64) ([]tree, error) {
	r := &router{sites: s, load: make([]float64, s.n*s.n), later: make([]float64, s.n*s.n), costs: make([]float64, s.n*s.n)}
	r.divide()
	r.unit = bound + s.reach()
	var best []part
	least := math.Inf(1)
	keep := func() {
		if t := r.finish(); t < least {
			least, best = t, slices.Clone(r.parts)
		}
	}
	for _, alpha := range steepness {
		full := r.top() - 4*r.unit/alpha
		for i := range r.parts {
			if r.work > maxWork && best != nil {
				break
			}
			if !r.presses(&r.parts[i], full) {
				continue
			}
			if err := r.reroute(&r.parts[i], alpha); err != nil {
				return nil, err
			}
		}
		if keep(); least <= enough*r.unit || r.work > maxWork {
			break
		}
	}
	// Where latency is what takes the time, the straight way is the best.
	for i := range r.parts {
		r.straight(&r.parts[i])
	}
	keep()
	u := uncrosser{sites: s, trees: collect(best), load: r.load}
	u.run()
	return u.trees, nil
}

// divide cuts the bytes of the pools into parts, in turns, so that no pool finds all links free.
func (r *router) divide() {
	var total int64
	for _, b := range r.bytes {
		total += b
	}
	shares := int64(min(mostShares, max(2*r.n, 8*mostShares/r.n)))
	share := max(1, (total+shares-1)/shares)
	left := slices.Clone(r.bytes)
	for more := true; more; {
		more = false
		for k, b := range left {
			if b == 0 {
				continue
			}
			n := min(share, b)
			if b-n < share/2 {
				n = b
			}
			r.parts = append(r.parts, part{root: k, bytes: n})
			left[k] -= n
			more = true
		}
	}
}

// put adds the load of p to the links of its tree, or takes it away with sign -1.
func (r *router) put(p *part, sign float64) {
	for to, from := range p.parent {
		if from >= 0 {
			e := from*r.n + to
			takes := sign * float64(p.bytes) / float64(r.capacity[e])
			r.load[e] += takes
			if from != p.root {
				r.later[e] += takes
			}
		}
	}
}

// top returns when the fullest link ends.
func (r *router) top() float64 {
	top := 0.0
	for e, l := range r.load {
		if r.capacity[e] > 0 {
			top = max(top, l+r.latency[e])
		}
	}
	return top
}

// presses reports whether p is on a link that ends after full, or on none yet: the others are where
// prices do not matter.
func (r *router) presses(p *part, full float64) bool {
	if p.parent == nil {
		return true
	}
	for to, from := range p.parent {
		if from >= 0 && r.load[from*r.n+to]+r.latency[from*r.n+to] >= full {
			return true
		}
	}
	return false
}

// reroute moves p to the tree that is cheapest at prices of the given steepness.
func (r *router) reroute(p *part, alpha float64) error {
	if p.parent != nil {
		r.put(p, -1)
	}
	r.work += r.n * r.n
	top := r.top()
	for from := range r.n {
		before := r.way[p.root*r.n+from]
		for to := range r.n {
			e := from*r.n + to
			if from == to || r.capacity[e] == 0 {
				r.costs[e] = math.Inf(1)
				continue
			}
			takes := float64(p.bytes) / float64(r.capacity[e])
			// What is relayed cannot begin before it is there; until then a link has bytes of its own pool to carry.
			full := (max(r.load[e], before+r.later[e]) + takes + r.latency[e] - top) / r.unit
			// Far below the top all prices are alike nothing: keep them in order.
			price := 1e-12 * (1 + before/r.unit)
			if x := alpha * full; x > -28 {
				price += math.Exp(x)
			}
			r.costs[e] = takes * price
		}
	}
	parent, ok := arborescence(r.n, p.root, r.costs)
	if !ok {
		return fmt.Errorf("from pool %d: %w", p.root, plan.ErrUnreachable)
	}
	p.parent = r.like(p.root, parent)
	r.put(p, 1)
	return nil
}

// straight moves p to the links from its own pool, but for pools that it has none to.
func (r *router) straight(p *part) {
	r.put(p, -1)
	p.parent = slices.Clone(p.parent)
	for to := range r.n {
		if to != p.root && r.capacity[p.root*r.n+to] > 0 {
			p.parent[to] = p.root
		}
	}
	r.put(p, 1)
}

// finish estimates when the last byte is there: every link ends when all of its load is
// through, and not before what it has to relay has come, which is sent first on the way there.
func (r *router) finish() float64 {
	relayed := make([]float64, len(r.load)) // seconds of what others wait for, by link
	for i := range r.parts {
		p := &r.parts[i]
		for _, from := range p.parent {
			if from < 0 || p.parent[from] < 0 {
				continue
			}
			for at := from; p.parent[at] >= 0; at = p.parent[at] {
				e := p.parent[at]*r.n + at
				relayed[e] += float64(p.bytes) / float64(r.capacity[e])
			}
		}
	}
	// A part that several pools wait for is counted for each: no matter, relayed is at most the load.
	last := 0.0
	for e, l := range r.load {
		if l > 0 {
			last = max(last, l+r.latency[e])
		}
	}
	for i := range r.parts {
		p := &r.parts[i]
		for to, from := range p.parent {
			if from < 0 || p.parent[from] < 0 {
				continue
			}
			way := r.latency[from*r.n+to]
			most := 0.0
			for at := from; p.parent[at] >= 0; at = p.parent[at] {
				e := p.parent[at]*r.n + at
				way += r.latency[e]
				most = max(most, min(relayed[e], r.load[e]))
			}
			last = max(last, way+most)
		}
	}
	return last
}
