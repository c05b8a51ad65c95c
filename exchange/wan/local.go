package wan

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
)

// addLocal appends what stays in the pools to p.
func (s *scheduler) addLocal(p *plan.Plan, local []*plan.Plan) error {
	index := make(map[string]int, len(p.Hosts))
	for h, name := range p.Hosts {
		index[name] = h
	}
	covered := make([]bool, len(s.pools))
	for _, l := range local {
		hosts := make([]int, len(l.Hosts))
		for i, name := range l.Hosts {
			h, ok := index[name]
			if !ok {
				return fmt.Errorf("local plan %s: host %q is none of the %d hosts", l.Algorithm, name, len(p.Hosts))
			}
			hosts[i] = h
		}
		if len(hosts) == 0 {
			continue
		}
		k := s.net.Pool[hosts[0]]
		if !slices.Equal(slices.Sorted(slices.Values(hosts)), s.pools[k]) || covered[k] || l.Collective != plan.Alltoall {
			return fmt.Errorf("local plan %s of %d hosts, the first %s: it is not the alltoall of one pool", l.Algorithm, len(hosts), l.Hosts[0])
		}
		covered[k] = true
		s.append(p, l, hosts)
	}
	for k, hosts := range s.pools {
		if covered[k] || len(hosts) < 2 {
			continue
		}
		names := make([]string, len(hosts))
		for i, h := range hosts {
			names[i] = p.Hosts[h]
		}
		l, err := shuffle.Shift(names, s.sizes.Among(hosts))
		if err != nil {
			return err
		}
		s.append(p, l, hosts)
	}
	return nil
}

// append takes the transfers of a local plan over, in p's numbers of hosts. Blocks of no bytes stay
// where others wait for them.
func (s *scheduler) append(p *plan.Plan, local *plan.Plan, hosts []int) {
	first := len(p.Transfers)
	for i := range local.Transfers {
		t := local.Transfers[i]
		t.ID, t.Src, t.Dst, t.Phase, t.Start, t.End = first+i, hosts[t.Src], hosts[t.Dst], -1, 0, 0
		t.Blocks, t.After = slices.Clone(t.Blocks), slices.Clone(t.After)
		for k := range t.Blocks {
			t.Blocks[k].Origin, t.Blocks[k].Dest = hosts[t.Blocks[k].Origin], hosts[t.Blocks[k].Dest]
		}
		for k := range t.After {
			t.After[k] += first
		}
		p.Transfers = append(p.Transfers, t)
	}
}
