package packed

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Name is what the plans of this package have for an algorithm.
const Name = "packed"

// Allgather returns the allgather over net in which host i contributes sizes[i] bytes; blocks of no
// bytes are left out. rings has the hosts of every pool, in the order of the ring in which pieces
// go round it. blind are P×P, [from*P+to]: links of which nobody knows what several flows get; nil means none.
//
// Every piece enters every pool once. Transfers carry one piece each, and come after the one that
// brought it to their source. They carry no times, and stand in the order in which they
// are to be sent. The error wraps [plan.ErrUnreachable] where a pool has no measured way to another.
func Allgather(net *plan.Network, rings [][]int, sizes []int64, blind []bool) (*plan.Plan, error) {
	p := &plan.Plan{Collective: plan.Allgather, Algorithm: Name, Hosts: net.Hosts, Sizes: slices.Clone(sizes), Transfers: []plan.Transfer{}}
	if len(sizes) > 0 && slices.Min(sizes) == slices.Max(sizes) {
		p.MessageBytes, p.Sizes = sizes[0], nil
	}
	if err := p.Check(); err != nil { // sizes in range, before anything is computed with them
		return nil, fmt.Errorf("packed: %w", err)
	}
	if err := checkRings(net, rings); err != nil {
		return nil, fmt.Errorf("packed: %w", err)
	}
	if n := net.Pools(); blind == nil {
		blind = make([]bool, n*n)
	} else if len(blind) != n*n {
		return nil, fmt.Errorf("packed: %d links that may be blind between %d pools", len(blind), n)
	}
	pools := make([][]int, len(rings))
	for k, order := range rings {
		pools[k] = slices.Sorted(slices.Values(order))
	}
	s := newSites(net, sizes)
	trees, err := s.trees()
	if err != nil {
		return nil, fmt.Errorf("packed: %w", err)
	}
	w := newWidths(s, net, pools, sizes, trees, blind)
	strands, cuts := shareOut(pools, sizes, trees, w)
	d := newScheduler(s, net, w, pools, strands)
	d.run()
	d.even()
	d.circulate(rings)
	p.Cuts, p.Transfers = cuts, d.transfers()
	return p, nil
}

// checkRings: rings[k] holds the hosts of pool k.
func checkRings(net *plan.Network, rings [][]int) error {
	if len(rings) != net.Pools() {
		return fmt.Errorf("%d rings for %d pools", len(rings), net.Pools())
	}
	seen := make([]bool, len(net.Pool))
	for k, order := range rings {
		for _, h := range order {
			if h < 0 || h >= len(seen) || seen[h] || net.Pool[h] != k {
				return fmt.Errorf("ring %d holds host %d, which is not there or stands twice", k, h)
			}
			seen[h] = true
		}
	}
	if h := slices.Index(seen, false); h >= 0 {
		return fmt.Errorf("host %d is in no ring", h)
	}
	return nil
}

// trees returns the ways of all bytes. With one pool everything is there already.
func (s *sites) trees() ([]tree, error) {
	if s.n == 1 {
		if s.bytes[0] == 0 {
			return nil, nil
		}
		return []tree{{root: 0, parent: []int{-1}, bytes: s.bytes[0]}}, nil
	}
	in := plan.BoundInput{Bytes: s.bytes, Capacity: make([][]netmap.BytesPerSec, s.n)}
	for k := range in.Capacity {
		in.Capacity[k] = s.capacity[k*s.n : (k+1)*s.n]
	}
	bound, err := plan.AllgatherBound(in)
	if err != nil {
		return nil, err
	}
	if bound.Seconds == 0 {
		return nil, nil // no bytes
	}
	return s.routes(bound.Seconds)
}
