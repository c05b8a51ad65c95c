package pools

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Criterion says what makes hosts a pool at a threshold.
type Criterion string

const (
	// Component: a pool is a connected component of the links whose both directions reach
	// the low end of the threshold's band. On the paper's 3-site grid this gives the tree
	// that its Figure 2 means, UT | {UK | NTH}.
	Component Criterion = "component"
	// Average is the paper's wording, "the average of bandwidths of links from a host to
	// all other hosts is greater than or equal to some threshold". The paper does not say
	// how to find such sets. Here the host with the lowest average leaves first (of equals
	// the last by name), until all who stay reach the low end of the band; they are a
	// pool, and those who left are grouped in the same way among themselves. Fast local
	// links dominate the average, so the pools in the middle of a tree rarely appear: the
	// 3-site grid comes out flat.
	Average Criterion = "average"
)

// Config selects how a tree is built. The zero value is what production runs.
type Config struct {
	// Criterion is Component or Average. Empty means Component.
	Criterion Criterion
	// Band is the relative width of a threshold's band. Zero means 0.10, as in the paper.
	// A narrow one splits on the noise of the measurement, a wide one merges a fast link
	// with a slow one. Negative or above 1 is an error.
	Band float64
}

// ErrNoHosts is returned for a snapshot without hosts.
var ErrNoHosts = errors.New("no hosts")

func (c Config) withDefaults() (Config, error) {
	if c.Criterion == "" {
		c.Criterion = Component
	}
	if c.Criterion != Component && c.Criterion != Average {
		return c, fmt.Errorf("criterion %q: not %s or %s", c.Criterion, Component, Average)
	}
	if c.Band == 0 {
		c.Band = 0.10
	}
	if !(c.Band > 0 && c.Band <= 1) {
		return c, fmt.Errorf("band %v: not in 0 … 1", c.Band)
	}
	return c, nil
}

// Build returns the pool tree of s. A threshold that does not split a pool adds no level;
// neither does one that leaves only single hosts, since the sub-pools of a leaf are its
// hosts anyway. Where a threshold splits off some single hosts beside larger parts, each
// of them is a pool of one host. The tree does not depend on the order of the hosts in s,
// only on their names and links.
//
// Build returns [netmap.ErrNotMeasured], wrapped with the pair, if a bandwidth is missing,
// and [ErrNoHosts] for an empty snapshot. It takes O(n² log n) by Component, and by
// Average up to O(n³) for each threshold.
func Build(s *netmap.Snapshot, cfg Config) (*Tree, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("pool tree: %w", err)
	}
	n := s.N()
	if n == 0 {
		return nil, fmt.Errorf("pool tree: %w", ErrNoHosts)
	}
	if err := checkMeasured(s); err != nil {
		return nil, fmt.Errorf("pool tree: %w", err)
	}

	// All work is done on the hosts in the order of their names, so that neither ties nor
	// the order of floating-point sums can depend on the order in s.
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.Host(a).Name, s.Host(b).Name), cmp.Compare(a, b))
	})
	named := s.Subset(order)
	t := &Tree{
		Thresholds: Thresholds(s, cfg.Band), Criterion: cfg.Criterion, Band: cfg.Band,
		Hosts: slices.Clone(s.Hosts()),
	}
	g := grower{thresholds: t.Thresholds}
	if cfg.Criterion == Average {
		g.split = newAverages(named).split
	} else {
		g.split = newSpanningTree(named).split
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	t.Root = g.grow(all, -1)
	t.Walk(func(p *Pool, _ int) bool {
		for i, h := range p.Hosts {
			p.Hosts[i] = order[h]
		}
		slices.Sort(p.Hosts)
		return true
	})
	t.Walk(func(p *Pool, _ int) bool {
		slices.SortFunc(p.Children, func(a, b *Pool) int { return cmp.Compare(a.Hosts[0], b.Hosts[0]) })
		return true
	})
	return t, nil
}

// checkMeasured says which pair of s has no bandwidth that a tree could be built from.
func checkMeasured(s *netmap.Snapshot) error {
	for i := range s.N() {
		for j := range s.N() {
			if i == j {
				continue
			}
			b, ok := s.Bandwidth(i, j)
			if !ok {
				return fmt.Errorf("bandwidth %s→%s: %w", s.Host(i).Name, s.Host(j).Name, netmap.ErrNotMeasured)
			}
			if !(b > 0) { // also catches NaN
				return fmt.Errorf("bandwidth %s→%s is %v B/s", s.Host(i).Name, s.Host(j).Name, float64(b))
			}
		}
	}
	return nil
}

// A grower climbs the thresholds and splits.
type grower struct {
	thresholds []Threshold
	// split returns the parts into which hosts fall at a threshold. The parts are new slices.
	split func(hosts []int, low netmap.BytesPerSec) [][]int
}

// grow returns the pool of hosts, which threshold k keeps together; k is -1 before the first.
func (g *grower) grow(hosts []int, k int) *Pool {
	p := &Pool{Hosts: hosts}
	for len(hosts) > 1 && k+1 < len(g.thresholds) {
		parts := g.split(hosts, g.thresholds[k+1].Low)
		if len(parts) == 1 {
			k++
			continue
		}
		if len(parts) < len(hosts) {
			for _, part := range parts {
				p.Children = append(p.Children, g.grow(part, k+1))
			}
		}
		break
	}
	if k >= 0 {
		p.Threshold = g.thresholds[k].High
	}
	return p
}
