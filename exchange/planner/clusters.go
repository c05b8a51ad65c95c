package planner

import (
	"cmp"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// lanLatency is the one-way latency up to which hosts can be on one LAN whatever their site labels say, and hosts of one label whatever
// the tree says.
const lanLatency = time.Millisecond

// Clusters parts the hosts into those that share a local network: the leaf pools of the tree,
// where these are one. Bandwidth alone does not tell.
//
// Hosts of several sites are in one leaf where their links are no slower than their LANs, or where each site has one host. In such
// a leaf, hosts of different site labels are in different clusters if they are more than a millisecond apart, their
// link is slower than both their ports (every two hosts of a leaf have a fast way, but it may be one over third hosts), or
// most hosts of a third label reach one better than the other.
//
// And the tree takes a site apart, down to single hosts, if its LAN is no faster than its link to a site with a faster one, or if
// some of its hosts have faster ports than the others. Its leaves are one cluster again where a label and an eighth of the pairs
// of hosts say so, or each host's way to a third site would pass for a pipe of its own; and where a declared switch tree has them all.
//
// The sets are ascending, and in the order of their first hosts.
//
// Links between clusters are pipes of their own in the network model, and for Min3 with
// shared links. The caller owns the sets.
func (p *Problem) Clusters() [][]int {
	if p.memo == nil {
		return p.clusters()
	}
	if p.memo.clusters == nil {
		p.memo.clusters = p.clusters() // 0.2 s for 1,000 hosts
	}
	own := slices.Clone(p.memo.clusters)
	for i := range own {
		own[i] = slices.Clone(own[i])
	}
	return own
}

func (p *Problem) clusters() [][]int {
	if p.Topology != nil { // it holds them all
		all := make([]int, len(p.Hosts()))
		for i := range all {
			all[i] = i
		}
		return [][]int{all}
	}
	var sets [][]int
	port := ports(p.Snapshot)
	for _, leaf := range p.Tree.Leaves() {
		sets = append(sets, lans(p.Snapshot, port, leaf)...)
	}
	sets = onDeclared(p.Snapshot, rejoin(p.Snapshot, port, sets), p.declared)
	slices.SortFunc(sets, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return sets
}

// togetherShare is the part of the pairs of two sets of one label that get what their ports have, from which on they are on one LAN: what is
// slower than ports keeps every pair below that, and a cable between switches keeps below it whoever is measured beside others. (The young map of 32
// hosts on four switches has a fifth to a third of the pairs across switches undisturbed in both directions.)
const togetherShare = 1. / 8

// portShare is what of the slower of two hosts' ports a link inside a LAN has at least, as measured.
const portShare = 0.8

// rejoin puts sets together that are of one LAN.
func rejoin(s *netmap.Snapshot, port []netmap.BytesPerSec, sets [][]int) [][]int {
	local := func(a, b []int) bool {
		near, fast := 0, 0
		for _, i := range a {
			for _, j := range b {
				if s.Host(i).Site != s.Host(j).Site || s.Host(i).Site == "" || !nearby(s, i, j) {
					continue
				}
				near++
				if perhaps(s, port, i, j) {
					fast++
				}
			}
		}
		return 2*near > len(a)*len(b) && float64(fast) >= togetherShare*float64(len(a)*len(b))
	}
	for n := 0; n != len(sets); { // until nothing changes: what was too far from a set may be near to what it has become
		n = len(sets)
		for i := 0; i < len(sets); i++ {
			rest := sets[:i+1]
			for _, b := range sets[i+1:] {
				if local(sets[i], b) {
					sets[i] = append(sets[i], b...)
				} else {
					rest = append(rest, b)
				}
			}
			sets = rest
			slices.Sort(sets[i])
		}
	}
	return sets
}

// onDeclared puts sets together that are on one declared switch tree: a cable between switches that many pairs share is measured while others
// use it, and 32 hosts on four switches fell into pools for which the plan crossed the cables 12 times as often as it must. Hosts that are
// further from most of the others than a LAN goes are not where the operator says.
func onDeclared(s *netmap.Snapshot, sets [][]int, trees []*plan.Topology) [][]int {
	for _, t := range trees {
		covered := func(set []int) bool {
			names := make([]string, len(set))
			for i, h := range set {
				names[i] = s.Host(h).Name
			}
			return t.Covers(names)
		}
		near := func(a, b []int) bool {
			n := 0
			for _, i := range a {
				for _, j := range b {
					if e := s.Estimate(i, j); e.Has(netmap.FieldLatency) && e.Latency <= lanLatency {
						n++
					}
				}
			}
			return 2*n > len(a)*len(b)
		}
		var whole []int
		rest := sets[:0:0]
		for _, set := range sets {
			if covered(set) && (whole == nil || near(whole, set)) {
				whole = append(whole, set...)
			} else {
				rest = append(rest, set)
			}
		}
		if whole != nil {
			slices.Sort(whole)
			rest = append(rest, whole)
		}
		sets = rest
	}
	return sets
}

// ports returns of each host the rate of its fastest link, in the slower direction: its port has that at least.
func ports(s *netmap.Snapshot) []netmap.BytesPerSec {
	port := make([]netmap.BytesPerSec, s.N())
	for i := range port {
		for j := range i {
			rate := width(s, i, j)
			port[i], port[j] = max(port[i], rate), max(port[j], rate)
		}
	}
	return port
}

// width is what one flow gets between two hosts in the slower direction; 0 if it is not known, or of a host and itself.
func width(s *netmap.Snapshot, i, j int) netmap.BytesPerSec {
	out, known := s.Bandwidth(i, j)
	back, too := s.Bandwidth(j, i)
	if i == j || !known || !too {
		return 0
	}
	return min(out, back)
}

// within reports whether nothing but ports is between two hosts: they are a millisecond apart at most, and what one
// flow gets is what the slower of their ports has.
func within(s *netmap.Snapshot, port []netmap.BytesPerSec, i, j int) bool {
	return nearby(s, i, j) && width(s, i, j) >= portShare*min(port[i], port[j])
}

// perhaps is within for hosts of one label, which must be shown to be apart: it takes an estimate for as much as its spread allows. Agents that start together on
// a machine that is busy then read LANs at a third to all of what they have, with spreads of a half and more; a site that falls apart by that takes its one link
// for several.
func perhaps(s *netmap.Snapshot, port []netmap.BytesPerSec, i, j int) bool {
	least := portShare * min(port[i], port[j])
	most := func(i, j int) netmap.BytesPerSec {
		rate, _ := s.Bandwidth(i, j)
		return rate * netmap.BytesPerSec(1+s.Estimate(i, j).Spread)
	}
	return nearby(s, i, j) && width(s, i, j) > 0 && min(most(i, j), most(j, i)) >= least
}

// nearby reports whether two hosts are as near to each other as on a LAN.
func nearby(s *netmap.Snapshot, i, j int) bool {
	e := s.Estimate(i, j)
	return e.Has(netmap.FieldLatency) && e.Latency <= lanLatency
}

// lans parts the hosts of one leaf: by label, and labels that share a LAN are together.
func lans(s *netmap.Snapshot, port []netmap.BytesPerSec, leaf []int) [][]int {
	of := make(map[string]int)
	var sets [][]int // by label
	for _, h := range leaf {
		k, ok := of[s.Host(h).Site]
		if !ok {
			k = len(sets)
			of[s.Host(h).Site] = k
			sets = append(sets, nil)
		}
		sets[k] = append(sets[k], h)
	}
	together := newNeighbours(s, port, sets)
	var whole [][]int
	for _, part := range adjoining(len(sets), together.near) {
		var lan []int
		for _, k := range part {
			lan = append(lan, sets[k]...)
		}
		slices.Sort(lan)
		whole = append(whole, lan)
	}
	return whole
}

// adjoining parts 0 … n-1 into those that next joins, directly or by way of others. Where not each of them is next to each, all
// stay alone: of a chain nobody can tell where to cut it.
func adjoining(n int, next func(a, b int) bool) [][]int {
	var parts [][]int
	seen := make([]bool, n)
	for i := range n {
		if seen[i] {
			continue
		}
		seen[i] = true
		part := []int{i}
		for k := 0; k < len(part); k++ {
			for j := range n {
				if !seen[j] && next(part[k], j) {
					seen[j] = true
					part = append(part, j)
				}
			}
		}
		each := true
		for k, a := range part {
			each = each && !slices.ContainsFunc(part[:k], func(b int) bool { return !next(a, b) })
		}
		if each {
			parts = append(parts, part)
			continue
		}
		for _, a := range part {
			parts = append(parts, []int{a})
		}
	}
	return parts
}

// flat returns the tree of which the clusters are the leaves.
func (p *Problem) flat() *pools.Tree {
	sets := p.Clusters()
	root := &pools.Pool{}
	for i := range p.Snapshot.N() {
		root.Hosts = append(root.Hosts, i)
	}
	if len(sets) > 1 {
		for _, set := range sets {
			root.Children = append(root.Children, &pools.Pool{Hosts: set})
		}
	}
	return &pools.Tree{Root: root, Hosts: p.Snapshot.Hosts()}
}
