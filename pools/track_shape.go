package pools

import (
	"math"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// sameShape reports whether two pools of the same hosts fall into the same sub-pools.
func sameShape(a, b *Pool) bool {
	return slices.Equal(a.Hosts, b.Hosts) && slices.EqualFunc(a.Children, b.Children, sameShape)
}

// defends reports whether the current tree can be seen in what is believed with good will.
// That makes the threshold between pools a Schmitt trigger: a pool comes about where its links
// are faster than those around it by a band and the margin, and it stays until they are faster by
// less than a band. Links that have become equal keep no pool.
//
// So links gain the margin with each level of the current tree that holds their ends together.
func (t *Tracker) defends() (bool, error) {
	tree, cfg := t.cur.Tree, t.bands()
	gain := make([]float64, len(t.pairs))
	n := len(t.hosts)
	tree.Walk(func(p *Pool, depth int) bool {
		g := math.Pow(1+t.cfg.Margin, float64(min(depth, 64)))
		for _, i := range p.Hosts {
			for _, j := range p.Hosts {
				gain[i*n+j] = g
			}
		}
		return true
	})
	kind, err := Build(t.believed(gain), cfg)
	if err != nil {
		return false, err
	}
	return sameShape(kind.Root, tree.Root), nil
}

// Restrict returns the tree of the given hosts alone, whose places in hosts become its
// indices: pools lose the other hosts, and levels that split nothing any more go. It reports
// false if t lacks one of the hosts, or there are none. Labels are taken from hosts.
func (t *Tree) Restrict(hosts []netmap.Host) (*Tree, bool) {
	place := make(map[string]int, len(hosts))
	for i, h := range hosts {
		place[h.Name] = i
	}
	to := make([]int, len(t.Hosts)) // new index of each host, -1 for those left out
	kept := 0
	for i, h := range t.Hosts {
		at, ok := place[h.Name]
		if !ok {
			at = -1
		} else {
			kept++
		}
		to[i] = at
	}
	if kept != len(hosts) || kept == 0 {
		return nil, false
	}
	return &Tree{
		Root: t.Root.restrict(to), Thresholds: t.Thresholds,
		Criterion: t.Criterion, Band: t.Band, Hosts: slices.Clone(hosts),
	}, true
}

// restrict returns p with the hosts that to keeps under their new indices, nil without any.
func (p *Pool) restrict(to []int) *Pool {
	q := &Pool{Threshold: p.Threshold}
	for _, h := range p.Hosts {
		if to[h] >= 0 {
			q.Hosts = append(q.Hosts, to[h])
		}
	}
	if len(q.Hosts) == 0 {
		return nil
	}
	slices.Sort(q.Hosts)
	for _, c := range p.Children {
		if r := c.restrict(to); r != nil {
			q.Children = append(q.Children, r)
		}
	}
	switch len(q.Children) {
	case 1:
		return q.Children[0] // it has all hosts of q, and holds them together more tightly
	case len(q.Hosts):
		q.Children = nil // nothing but single hosts: no level, as in Build
	}
	slices.SortFunc(q.Children, func(a, b *Pool) int { return a.Hosts[0] - b.Hosts[0] })
	return q
}
