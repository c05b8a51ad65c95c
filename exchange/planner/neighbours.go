package planner

import (
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// mostLooks bounds how often two sets are compared by what a third host has from them: a LAN of 1,000 hosts may have as many labels, and
// 5·10⁸ looks take seconds. Beyond it some of the third hosts are asked, evenly by rank.
const mostLooks = 1 << 23

// neighbours tell which sets of hosts are on one LAN.
type neighbours struct {
	s     *netmap.Snapshot
	port  []netmap.BytesPerSec
	sets  [][]int
	of    []int // the set of each host, -1 for none
	third []int // the hosts that are asked
	group []int // the label of each of them, by number
	tally []int // by label: how many say that they do not reach two sets alike, less those who say that they do
	views []*view
	known []int8 // of each two sets, once it is known: 1 near, -1 not
}

// A view is what the fastest of a set have from each of the third hosts and to it; 0: it is not known.
type view struct {
	from, to []netmap.BytesPerSec
	port     netmap.BytesPerSec // of the fastest
}

func newNeighbours(s *netmap.Snapshot, port []netmap.BytesPerSec, sets [][]int) *neighbours {
	n := &neighbours{s: s, port: port, sets: sets, of: make([]int, s.N()), views: make([]*view, len(sets)), known: make([]int8, len(sets)*len(sets))}
	for h := range n.of {
		n.of[h] = -1
	}
	for k, set := range sets {
		for _, h := range set {
			n.of[h] = k
		}
	}
	labels := make(map[string]int)
	for h := 0; h < s.N(); h += 1 + s.N()*len(sets)*len(sets)/2/mostLooks {
		g, ok := labels[s.Host(h).Site]
		if !ok {
			g = len(labels)
			labels[s.Host(h).Site] = g
		}
		n.third, n.group = append(n.third, h), append(n.group, g)
	}
	n.tally = make([]int, len(labels))
	return n
}

// near reports whether the hosts of sets a and b are on one LAN, as far as others can tell: what the fastest of a and of b have from
// third hosts and to them is alike, as it is behind one router. Most hosts of a third label must say otherwise: the word of one, or the
// noise of many, is not enough.
func (n *neighbours) near(a, b int) bool {
	a, b = min(a, b), max(a, b)
	is := &n.known[a*len(n.sets)+b]
	if *is == 0 {
		*is = -1
		if n.joined(a, b) && n.alike(a, b) {
			*is = 1
		}
	}
	return *is > 0
}

// joined reports whether nothing but ports is between some host of a and one of b.
func (n *neighbours) joined(a, b int) bool {
	return slices.ContainsFunc(n.sets[a], func(i int) bool {
		return slices.ContainsFunc(n.sets[b], func(j int) bool { return within(n.s, n.port, i, j) })
	})
}

// alike reports whether third hosts reach a as well as b.
func (n *neighbours) alike(a, b int) bool {
	x, y := n.view(a), n.view(b)
	most := min(x.port, y.port) // more only the faster ones of the two have
	alike := func(x, y netmap.BytesPerSec) bool {
		x, y = min(x, most), min(y, most)
		return min(x, y) >= portShare*max(x, y)
	}
	clear(n.tally)
	for k, h := range n.third {
		switch {
		case n.of[h] == a || n.of[h] == b:
		case alike(x.from[k], y.from[k]) && alike(x.to[k], y.to[k]):
			n.tally[n.group[k]]--
		default:
			n.tally[n.group[k]]++
		}
	}
	return !slices.ContainsFunc(n.tally, func(more int) bool { return more > 0 })
}

// view returns what set a has.
func (n *neighbours) view(a int) *view {
	if n.views[a] != nil {
		return n.views[a]
	}
	v := &view{from: make([]netmap.BytesPerSec, len(n.third)), to: make([]netmap.BytesPerSec, len(n.third))}
	for _, i := range n.sets[a] {
		v.port = max(v.port, n.port[i])
		for k, h := range n.third {
			if r, ok := n.s.Bandwidth(h, i); ok {
				v.from[k] = max(v.from[k], r)
			}
			if r, ok := n.s.Bandwidth(i, h); ok {
				v.to[k] = max(v.to[k], r)
			}
		}
	}
	n.views[a] = v
	return v
}
