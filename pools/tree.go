package pools

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Pool is a set of hosts that reach each other at a bandwidth threshold.
type Pool struct {
	// Threshold is the top of the highest band that keeps the pool together. For a pool of
	// one host, which any band keeps together, it is the band at which the host came to
	// stand alone; 0 if the whole grid is one host.
	Threshold netmap.BytesPerSec
	// Hosts are indices into the snapshot, sorted.
	Hosts []int
	// Children are the sub-pools: disjoint, together all of Hosts, two or more, ordered by
	// their first host. A pool without Children is a leaf: its sub-pools, in the words of
	// the paper, are its individual hosts.
	Children []*Pool
}

// Leaf reports whether the sub-pools of p are its individual hosts.
func (p *Pool) Leaf() bool { return len(p.Children) == 0 }

// A Tree is the pool tree of one snapshot. It is not modified after [Build] or [Parse].
type Tree struct {
	Root       *Pool
	Thresholds []Threshold // lowest first; nil for a tree from [Parse]
	Criterion  Criterion   // empty for a tree that was drawn up by hand
	Band       float64
	Hosts      []netmap.Host // what the indices mean
}

// Walk calls visit for every pool, parents before children and in the order of their
// hosts, with its depth below the root. It goes below a pool only if visit says true.
func (t *Tree) Walk(visit func(p *Pool, depth int) bool) {
	var walk func(*Pool, int)
	walk = func(p *Pool, depth int) {
		if !visit(p, depth) {
			return
		}
		for _, c := range p.Children {
			walk(c, depth+1)
		}
	}
	walk(t.Root, 0)
}

// Leaves returns the hosts of each leaf: a partition of all hosts. The slices are copies.
func (t *Tree) Leaves() [][]int {
	var sets [][]int
	t.Walk(func(p *Pool, _ int) bool {
		if p.Leaf() {
			sets = append(sets, slices.Clone(p.Hosts))
		}
		return true
	})
	return sets
}

// Sets returns the hosts of every pool but the root: the sets that each block may enter
// only once. The slices are copies.
func (t *Tree) Sets() [][]int {
	var sets [][]int
	t.Walk(func(p *Pool, depth int) bool {
		if depth > 0 {
			sets = append(sets, slices.Clone(p.Hosts))
		}
		return true
	})
	return sets
}

// Check says why t is not a pool tree of n hosts: a pool whose hosts are not sorted or not
// in 0 … n-1, whose children do not make up exactly its hosts, or that has one child; a
// root without all hosts. The error names the pool by its path from the root.
func (t *Tree) Check(n int) error {
	if t.Root == nil {
		return fmt.Errorf("pool tree without a root")
	}
	if len(t.Root.Hosts) != n {
		return fmt.Errorf("root: %d hosts of %d", len(t.Root.Hosts), n)
	}
	return t.Root.check("root", n)
}

func (p *Pool) check(path string, n int) error {
	if len(p.Hosts) == 0 {
		return fmt.Errorf("%s: no hosts", path)
	}
	for i, h := range p.Hosts {
		if h < 0 || h >= n {
			return fmt.Errorf("%s: host %d of %d", path, h, n)
		}
		if i > 0 && h <= p.Hosts[i-1] {
			return fmt.Errorf("%s: host %d after %d", path, h, p.Hosts[i-1])
		}
	}
	if p.Leaf() {
		return nil
	}
	if len(p.Children) == 1 {
		return fmt.Errorf("%s: one child, which splits nothing", path)
	}
	var all []int
	for i, c := range p.Children {
		if c == nil {
			return fmt.Errorf("%s.children[%d]: missing", path, i)
		}
		if err := c.check(fmt.Sprintf("%s.children[%d]", path, i), n); err != nil {
			return err
		}
		all = append(all, c.Hosts...)
	}
	slices.Sort(all)
	if !slices.Equal(all, p.Hosts) {
		return fmt.Errorf("%s: the children hold the hosts %v, not %v", path, all, p.Hosts)
	}
	return nil
}
