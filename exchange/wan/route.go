package wan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// route gives every block between pools its way: the paths of the routing in turn, each
// until it has its bytes.
func (s *scheduler) route(bounds *plan.AlltoallBounds) error {
	if bounds.Routing == nil {
		return nil
	}
	straight := s.straight(bounds)
	relays := newRelays(s)
	paths := bounds.Routing.Paths
	for len(paths) > 0 {
		from, to := ends(paths[0])
		n := 1
		for ; n < len(paths); n++ {
			if f, t := ends(paths[n]); f != from || t != to {
				break
			}
		}
		of := paths[:n]
		paths = paths[n:]
		if from < 0 || from >= len(s.pools) || to < 0 || to >= len(s.pools) || from == to {
			return fmt.Errorf("a path from pool %d to %d of %d pools", from, to, len(s.pools))
		}
		direct := plan.Path{Pools: []int{from, to}}
		if straight {
			of = []plan.Path{direct}
		}
		of = slices.Clone(of)
		slices.SortStableFunc(of, func(a, b plan.Path) int { return cmp.Compare(len(b.Pools), len(a.Pools)) })
		s.routePair(from, to, of, relays)
	}
	return nil
}

func ends(p plan.Path) (from, to int) { return p.Pools[0], p.Pools[len(p.Pools)-1] }

// routePair deals the blocks of one pair of pools, the first ones to the first path. In the
// order of turns these are of all sources and destinations alike.
func (s *scheduler) routePair(from, to int, paths []plan.Path, relays *relays) {
	at, limit, given := 0, paths[0].Bytes, 0.0
	for _, b := range s.turns(from, to) {
		size := s.sizes.Of(b.Origin, b.Dest)
		if size == 0 {
			continue
		}
		// A block belongs to the path in which its middle lies.
		for at < len(paths)-1 && given+float64(size)/2 > limit {
			at++
			limit += paths[at].Bytes
		}
		given += float64(size)
		s.addLegs(b, size, relays.hosts(paths[at].Pools, b, size))
	}
}

// turns returns the blocks from one pool to another so that sources and destinations take
// turns: each round has every source once, and neighbours in it send to different hosts.
func (s *scheduler) turns(from, to int) []plan.Block {
	sources, dests := s.pools[from], s.pools[to]
	blocks := make([]plan.Block, 0, len(sources)*len(dests))
	for round := range dests {
		for i, src := range sources {
			blocks = append(blocks, plan.Block{Origin: src, Dest: dests[(i+round)%len(dests)]})
		}
	}
	return blocks
}

// addLegs appends the legs of a block along hosts of different pools.
func (s *scheduler) addLegs(b plan.Block, size int64, hosts []int) {
	for k := 1; k < len(hosts); k++ {
		src, dst := hosts[k-1], hosts[k]
		id := len(s.legs)
		l := leg{block: b, bytes: size, src: src, dst: dst, link: s.net.Pool[src]*len(s.pools) + s.net.Pool[dst],
			hops: len(hosts) - k, next: -1, after: -1, lane: -1}
		if k > 1 {
			s.relays = true
			l.after, s.legs[id-1].next = id-1, id
		} else {
			s.links[l.link].own = append(s.links[l.link].own, id)
		}
		s.legs = append(s.legs, l)
	}
}

// relays chooses hosts of pools on the way.
type relays struct {
	s       *scheduler
	through []int64   // per host: bytes that it relays
	load    []float64 // per host: seconds that its ports are busy, out and in together
	turn    int
}

func newRelays(s *scheduler) *relays {
	n := len(s.net.Hosts)
	r := &relays{s: s, through: make([]int64, n), load: make([]float64, n)}
	for a := range n {
		for b := range n {
			if a != b {
				r.add(a, b, s.sizes.Of(a, b))
			}
		}
	}
	return r
}

func (r *relays) add(src, dst int, bytes int64) {
	if out := r.s.net.Egress[src]; out > 0 {
		r.load[src] += float64(bytes) / float64(out)
	}
	if in := r.s.net.Ingress[dst]; in > 0 {
		r.load[dst] += float64(bytes) / float64(in)
	}
}

// hosts returns the way of a block along pools: from each pool between, the host whose ports
// have least to do, and among equals that whose turn it is. Where no host may relay any more and there is a link, it goes straight.
func (r *relays) hosts(pools []int, b plan.Block, size int64) []int {
	way := []int{b.Origin}
	for _, k := range pools[1 : len(pools)-1] {
		best := -1
		for i := range r.s.pools[k] {
			h := r.s.pools[k][(i+r.turn)%len(r.s.pools[k])]
			if r.through[h]+size <= r.s.opts.Transit && (best < 0 || r.load[h] < r.load[best]) {
				best = h
			}
		}
		if best < 0 {
			if r.s.links[pools[0]*len(r.s.pools)+pools[len(pools)-1]].rate > 0 {
				return []int{b.Origin, b.Dest}
			}
			best = r.least(k)
		}
		way = append(way, best)
	}
	r.turn++
	for _, h := range way[1:] {
		r.through[h] += size
		r.add(h, h, size)
	}
	return append(way, b.Dest)
}

// least returns the host of pool k that relays least: without a link of their own, blocks have
// no other way than over one of them.
func (r *relays) least(k int) int {
	best := r.s.pools[k][0]
	for _, h := range r.s.pools[k] {
		if r.through[h] < r.through[best] {
			best = h
		}
	}
	return best
}
