package min3

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// checkTree says why tree is not a pool tree of the hosts of s.
func checkTree(tree *pools.Tree, s *netmap.Snapshot) error {
	if tree == nil {
		return errors.New("no pool tree")
	}
	if err := tree.Check(s.N()); err != nil {
		return fmt.Errorf("pool tree: %w", err)
	}
	// A tree that was kept while hosts came and went can fit by number and still be of
	// another grid.
	for i, h := range tree.Hosts {
		if i >= s.N() || h.Name != s.Host(i).Name {
			return fmt.Errorf("pool tree is of other hosts: host %d is %q there", i, h.Name)
		}
	}
	return nil
}

// children returns the sub-pools of p by their lowest host, which is the pool index that
// breaks ties; Check leaves their order in the tree open.
func children(p *pools.Pool) []*pools.Pool {
	return slices.SortedFunc(slices.Values(p.Children), func(a, b *pools.Pool) int {
		return a.Hosts[0] - b.Hosts[0]
	})
}

// subPools returns the hosts of each sub-pool of p, in the order of their indices: those
// of its children, or, of a leaf, each host.
func subPools(p *pools.Pool) [][]int {
	var subs [][]int
	if p.Leaf() {
		for i := range p.Hosts {
			subs = append(subs, p.Hosts[i:i+1])
		}
		return subs
	}
	for _, c := range children(p) {
		subs = append(subs, c.Hosts)
	}
	return subs
}
