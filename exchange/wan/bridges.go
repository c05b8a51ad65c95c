package wan

import "math"

// fewBridges is how many bridges a link has where more are not needed to fill it or to spread
// what crosses it over the ports of hosts: each has a window of 10 kB at least, and
// together these are to fit into the queue of a slow link. docs/design/decisions.md has what fewer and more cost.
const fewBridges = 8

// mostPairs bounds the bridges of a link: each is a connection at both of its ends.
const mostPairs = 256

// A bridge is a pair of hosts over which blocks cross a link, for as long as there are any: one
// connection that goes on has found its rate, where a new one for each block
// begins anew.
type bridge struct {
	near, far int
	share     float64 // bytes of what crosses the link that are its to carry
	left      float64 // bytes that it has still to get of its share of what crosses the link
	own       bool    // it has all that the two hosts have for each other on this link
}

// bridgesOf returns the bridges of every link, P×P, which carries so many bytes. Those from one pool to another are those
// back turned around: acknowledgements travel with data of the other direction.
func (s *scheduler) bridgesOf(load []float64) [][]bridge {
	pools := len(s.pools)
	all := make([][]bridge, pools*pools)
	for a := range pools {
		for b := a + 1; b < pools; b++ {
			own := s.holdsAll(a, b) && s.holdsAll(b, a) || s.steadily(a, b, load) && s.steadily(b, a, load)
			join := func(near, far int) {
				all[a*pools+b] = append(all[a*pools+b], bridge{near: near, far: far, own: own})
				all[b*pools+a] = append(all[b*pools+a], bridge{near: far, far: near, own: own})
			}
			if own {
				for _, near := range s.pools[a] {
					for _, far := range s.pools[b] {
						join(near, far)
					}
				}
				continue
			}
			count := max(s.needed(a, b), s.needed(b, a))
			// Both ends go round their pools. When they meet at the hosts where they began, one goes on by one.
			again := leastMultiple(len(s.pools[a]), len(s.pools[b]))
			for k := range count {
				join(s.member(a, b, k, count), s.member(b, a, k+k/again, count))
			}
		}
	}
	return all
}

// leastMultiple returns the least common multiple of two positive numbers.
func leastMultiple(a, b int) int {
	m := a
	for m%b != 0 {
		m += a
	}
	return m
}

// needed returns how many bridges the link between two pools needs: as many as fill it by what one
// flow gets of it, and as many as spread it over ports, but no host of the larger pool is in two. If these
// are too few to fill it, the engine opens several connections for each, which blocks that are short do not fill: then
// there are as many bridges as flows, or one for each pair of hosts.
func (s *scheduler) needed(from, to int) int {
	all := max(len(s.pools[from]), len(s.pools[to]))
	if s.opts.Blind != nil && s.opts.Blind[from*len(s.pools)+to] {
		return min(2*max(all, fewBridges), len(s.pools[from])*len(s.pools[to]), 2*fewBridges)
	}
	l := &s.links[from*len(s.pools)+to]
	want := float64(fewBridges)
	if l.flow > 0 {
		rate := l.rate
		if s.opts.Lines != nil {
			rate = max(rate, float64(s.opts.Lines[from*len(s.pools)+to]))
		}
		flows := math.Ceil(spare * rate / l.flow)
		want = max(want, flows)
		if flows > float64(all) && s.short(from, to, flows, float64(all)*l.flow) {
			if pairs := len(s.pools[from]) * len(s.pools[to]); flows < nearlyAll*float64(pairs) {
				all = int(flows)
			} else {
				all, want = pairs, max(want, float64(pairs))
			}
		}
	}
	for _, pool := range []int{from, to} {
		for _, h := range s.pools[pool] {
			if port := float64(min(s.net.Egress[h], s.net.Ingress[h])); port > 0 {
				want = max(want, math.Ceil(l.rate/(portShare*port)))
			}
		}
	}
	return int(min(want, float64(all)))
}

// nearlyAll is from which part of all pairs of hosts on all of them are bridges: none then passes on what is another's.
const nearlyAll = 2. / 3

// LaneFill is how many bytes of a pair of hosts each of its lanes has at least, where it has several: the engine puts together what
// is ready at one time, and what a slow link's queue has room for goes over one. Forecasts count as many lanes, and of 1, 2, 3, 4 and 6 KiB chose best with
// this one (docs/design/planning.md).
const LaneFill = 4 << 10

// short reports whether blocks from one pool to another are too short for so many flows to be lanes of fewer bridges, which with one lane each carry so many bytes a second, and
// whether they would be on their way for longer so than what comes back.
func (s *scheduler) short(from, to int, flows, bridges float64) bool {
	if s.opts.Lossy != nil && s.opts.Lossy[from*len(s.pools)+to] {
		return false
	}
	there, _ := s.crossing(from, to)
	back, _ := s.crossing(to, from)
	return there < LaneFill*flows && there/bridges > back/s.links[to*len(s.pools)+from].rate
}

// crossing returns how many bytes the hosts of one pool have for those of another, and how many the largest block has.
func (s *scheduler) crossing(from, to int) (all, most float64) {
	for _, a := range s.pools[from] {
		for _, b := range s.pools[to] {
			n := float64(s.sizes.Of(a, b))
			all, most = all+n, max(most, n)
		}
	}
	return all, most
}

// windowBytes is what each bridge has under way at least, and fills the part of a link, or of a host's port, that one flow must get to count as
// one that nothing else holds.
const (
	windowBytes = 11 << 10
	fills       = 0.8
)

// holdsAll reports whether the link between two pools holds what bridges of all pairs of their hosts have under way at least, without a queue. Then every
// pair has one: blocks go straight from origin to destination, and take nothing of the ports of others. Over links that are faster than these
// that is what counts: between 5 and 5 hosts of 100 Mbit/s, with 300 Mbit/s and a round trip of 30 ms between them, an alltoall took a quarter longer over 5 bridges.
// Not where the network holds each flow: there a block that is larger than others needs several. Nor does it ask what the link holds where a pool is tight: what hosts hand to mates their ports
// have no room for.
func (s *scheduler) holdsAll(from, to int) bool {
	l := &s.links[from*len(s.pools)+to]
	pairs := len(s.pools[from]) * len(s.pools[to])
	if s.tight != nil && (s.tight[from] || s.tight[to]) {
		return pairs <= mostPairs
	}
	most := l.rate
	for _, h := range s.pools[from] {
		most = min(most, float64(s.net.Egress[h]))
	}
	for _, h := range s.pools[to] {
		most = min(most, float64(s.net.Ingress[h]))
	}
	return pairs <= mostPairs && l.flow >= fills*most && float64(pairs*windowBytes) <= 2*l.latency*l.rate
}

// What decides whether the engine needs no windows on a link (run.packs in package exchange; docs/design/lanes.md): how much more of it than what one flow gets a pair of hosts needs at most, and
// what the least window of a pair holds, in bytes.
const (
	steadyFlow  = 1.03
	leastWindow = 10 << 10
)

// Where every pair of hosts sends without a window nothing holds back what goes beside data, a sixteenth of it, which stands in the link's queue in the end: that of a slow link has room for 64 packets, of which steadyBytes need half, and faster
// ones have more, so that as many bytes may cross as take steadyTime seconds. relayed is the share of what two pools have for each other by which their link carries more or less if relays are to count.
const (
	steadyBytes = 512 << 10
	steadyTime  = 0.5
	relayed     = 0.01
)

// steadily reports whether blocks go from one pool to another without windows if every pair of hosts has a bridge, and fill a lane each. What few bridges are for, windows that
// fit into the queue of a slow link and learn its rate, is then not needed: blocks go straight, each pair over one lane from the beginning, and nothing is passed on inside a site. Where the network holds each
// flow several lanes of few bridges begin one after the other: alltoalls of 4 KiB from three to five hosts over 12.2 Mbit/s, 1.2 a flow, took 76 ms over
// five bridges and take 65 (840). Where neither way holds them only packets and passing on inside sites are spared, for more acknowledgements: blocks have twice as much there. Not where relays bring some or take some away: what they pass on is not there from the beginning.
func (s *scheduler) steadily(from, to int, load []float64) bool {
	i := from*len(s.pools) + to
	l, pairs := &s.links[i], float64(len(s.pools[from])*len(s.pools[to]))
	all, most := s.crossing(from, to)
	held := func(k int) bool { return s.links[k].flow > 0 && s.links[k].flow < fills*s.links[k].rate }
	least := float64(LaneFill)
	if !held(i) && !held(s.back(i)) {
		least *= 2
	}
	switch {
	case s.opts.Blind != nil && s.opts.Blind[i], s.opts.Lossy != nil && s.opts.Lossy[i]:
		return false
	case pairs > mostPairs, all < least*pairs, most*pairs > unlike*all, math.Abs(load[i]-all) > relayed*all, all > max(steadyBytes, steadyTime*l.rate):
		return false
	case held(i):
		return most*l.rate <= steadyFlow*all*l.flow
	}
	return pairs*leastWindow >= 2*l.latency*l.rate
}

// portShare is the part of a host's port that one bridge may take at most, where the pool has
// hosts enough.
const portShare = 0.25

// member returns the host of pool for end k of count bridges to another pool. Where there are more
// hosts than bridges, those to different pools begin at different ones.
func (s *scheduler) member(pool, other, k, count int) int {
	hosts := s.pools[pool]
	if n := len(hosts); n > count {
		return hosts[(k*n/count+other)%n]
	}
	return hosts[k%len(hosts)]
}
