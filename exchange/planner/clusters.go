package planner

import (
	"cmp"
	"slices"
	"time"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// lanLatency is the one-way latency up to which hosts of two site labels can still be
// on one LAN.
const lanLatency = time.Millisecond

// Clusters parts the hosts into those that share a local network: the leaf pools of the tree,
// where these are one. Bandwidth alone does not tell: hosts of several sites are in one leaf
// where their links are no slower than their LANs, or where each site has one host. In such
// a leaf, hosts of different site labels that are more than a millisecond apart are in
// different clusters. The sets are ascending, and in the order of their first hosts.
//
// Links between clusters are pipes of their own in the network model, and for Min3 with
// shared links.
func (p *Problem) Clusters() [][]int {
	if p.Topology != nil {
		return p.Tree.Leaves()
	}
	var sets [][]int
	for _, leaf := range p.Tree.Leaves() {
		sets = append(sets, lans(p.Snapshot, leaf)...)
	}
	slices.SortFunc(sets, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return sets
}

// lans parts the hosts of one leaf.
func lans(s *netmap.Snapshot, leaf []int) [][]int {
	of := make([]int, len(leaf)) // the set of each host, joined as links are looked at
	for i := range leaf {
		of[i] = i
	}
	for i, a := range leaf {
		for j, b := range leaf[:i] {
			if of[i] != of[j] && near(s, a, b) {
				from, to := of[i], of[j]
				for k := range of {
					if of[k] == from {
						of[k] = to
					}
				}
			}
		}
	}
	bySet := make(map[int]int)
	var sets [][]int
	for i, h := range leaf {
		k, ok := bySet[of[i]]
		if !ok {
			k = len(sets)
			bySet[of[i]] = k
			sets = append(sets, nil)
		}
		sets[k] = append(sets[k], h)
	}
	for _, set := range sets {
		slices.Sort(set)
	}
	return sets
}

// near reports whether hosts a and b can be on one LAN.
func near(s *netmap.Snapshot, a, b int) bool {
	if s.Host(a).Site == s.Host(b).Site {
		return true
	}
	e := s.Estimate(a, b)
	return e.Has(netmap.FieldLatency) && e.Latency <= lanLatency
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
