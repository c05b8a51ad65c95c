package baseline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/pools"
)

// checkTree says why tree is not a pool tree of hosts.
func checkTree(tree *pools.Tree, hosts []string) error {
	if tree == nil {
		return errors.New("no pool tree")
	}
	if err := tree.Check(len(hosts)); err != nil {
		return fmt.Errorf("pool tree: %w", err)
	}
	// A tree that was kept while hosts came and went can fit by number and still be of
	// another grid. One that was drawn up by hand may lack names.
	for i, h := range tree.Hosts {
		if i >= len(hosts) || h.Name != hosts[i] {
			return fmt.Errorf("pool tree is of other hosts: host %d is %q there", i, h.Name)
		}
	}
	return nil
}

// subPools returns the sub-pools of p by their lowest host: its children or, of a leaf,
// its individual hosts.
func subPools(p *pools.Pool) []*pools.Pool {
	if !p.Leaf() {
		return slices.SortedFunc(slices.Values(p.Children), func(a, b *pools.Pool) int {
			return a.Hosts[0] - b.Hosts[0]
		})
	}
	subs := make([]*pools.Pool, len(p.Hosts))
	for i := range p.Hosts {
		subs[i] = &pools.Pool{Hosts: p.Hosts[i : i+1]}
	}
	return subs
}

// heads returns the lowest host of each pool: its coordinator.
func heads(subs []*pools.Pool) []int {
	out := make([]int, len(subs))
	for i, sub := range subs {
		out[i] = sub.Hosts[0]
	}
	return out
}
