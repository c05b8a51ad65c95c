package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A hold is a stretch of time for which a transfer keeps a resource: a host's port, or
// the link of an ordered pair. No other transfer that uses the resource may start inside.
type hold struct {
	resource    int
	start, free float64 // seconds
	transfer    int
}

// checkPorts judges the predicted times by equations 1-3 of Gupta & Vadhiyar, HPDC
// 2007, §4. A transfer that starts at S keeps the link for g, the sender's port for
// os, and the receiver's port until it has arrived. With half duplex both ports are
// the one port of the host. It lasts L + m/B at least.
func checkPorts(p *Plan, rules *Rules) error {
	tol := rules.tolerance()
	if !p.timed() && p.moves() {
		return violated(HostPort, nil, "the plan carries no predicted times to judge the %s-duplex model by", rules.Duplex)
	}
	m, err := newPairModel(p, rules.Snapshot)
	if err != nil {
		return err
	}
	n := len(p.Hosts)
	holds := make([]hold, 0, 3*len(p.Transfers))
	for i := range p.Transfers {
		t := &p.Transfers[i]
		cost, err := m.cost(t, p.Bytes(t))
		if err != nil {
			return fmt.Errorf("verify: transfer %d: %w", i, err)
		}
		if t.End-t.Start < cost.lasts.Seconds()-tol {
			return violated(HostPort, []int{i}, "%s→%s lasts %s, but latency and bandwidth need %s",
				p.Hosts[t.Src], p.Hosts[t.Dst], us(t.End-t.Start), cost.lasts)
		}
		send, receive := t.Src, t.Dst
		if rules.Duplex == FullDuplex {
			receive += n
		}
		holds = append(holds,
			hold{send, t.Start, t.Start + cost.overhead.Seconds(), i},
			hold{receive, t.Start, t.End, i},
			hold{2*n + t.Src*n + t.Dst, t.Start, t.Start + cost.gap.Seconds(), i})
	}
	a, b, ok := overlap(holds, tol)
	if !ok {
		return nil
	}
	what := "port of " + p.Hosts[a.resource%n]
	if a.resource >= 2*n {
		pair := a.resource - 2*n
		what = "link " + p.Hosts[pair/n] + "→" + p.Hosts[pair%n]
	} else if rules.Duplex == FullDuplex {
		what = [2]string{"send ", "receive "}[a.resource/n] + what
	}
	return violated(HostPort, []int{a.transfer, b.transfer}, "%s is taken from %s until %s, and again at %s (%s duplex)",
		what, us(a.start), us(a.free), us(b.start), rules.Duplex)
}

// moves reports whether p moves any bytes.
func (p *Plan) moves() bool {
	for i := range p.Transfers {
		if p.Bytes(&p.Transfers[i]) > 0 {
			return true
		}
	}
	return false
}

// overlap finds two holds of one resource of which the second starts inside the first.
// Of holds that start together the one that ends first goes first: a send without
// overhead leaves the port free for a receive at the same instant. "Together" is
// within tol, or noise in the last digit would decide who goes first.
func overlap(holds []hold, tol float64) (first, second hold, found bool) {
	slices.SortFunc(holds, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.start, b.start), cmp.Compare(a.transfer, b.transfer))
	})
	for i := 0; i < len(holds); {
		j := i + 1
		for j < len(holds) && holds[j].resource == holds[i].resource && holds[j].start <= holds[i].start+tol {
			j++
		}
		slices.SortStableFunc(holds[i:j], func(a, b hold) int { return cmp.Compare(a.free, b.free) })
		i = j
	}
	var last hold
	for i, h := range holds {
		if i == 0 || h.resource != last.resource {
			last = h
			continue
		}
		if h.start < last.free-tol {
			return last, h, true
		}
		if h.free > last.free {
			last = h
		}
	}
	return hold{}, hold{}, false
}

// A pairModel gives the parameters of equations 1-3 for the hosts of one plan.
type pairModel struct {
	snapshot *netmap.Snapshot // nil: ports only
	rank     []int            // plan host -> snapshot host
}

func newPairModel(p *Plan, s *netmap.Snapshot) (pairModel, error) {
	if s == nil {
		return pairModel{}, nil
	}
	rank, err := snapshotRanks(p, s)
	return pairModel{snapshot: s, rank: rank}, err
}

// snapshotRanks maps the hosts of p to those of s, by name.
func snapshotRanks(p *Plan, s *netmap.Snapshot) ([]int, error) {
	index := make(map[string]int, s.N())
	for i, h := range s.Hosts() {
		index[h.Name] = i
	}
	rank := make([]int, len(p.Hosts))
	for i, h := range p.Hosts {
		r, ok := index[h]
		if !ok {
			return nil, fmt.Errorf("host %q of the plan is not in the network map", h)
		}
		rank[i] = r
	}
	return rank, nil
}

// A pairCost holds what one message takes: L + m/B, g(m) and os(m).
type pairCost struct{ lasts, gap, overhead time.Duration }

func (m pairModel) cost(t *Transfer, bytes int64) (pairCost, error) {
	if m.snapshot == nil {
		return pairCost{}, nil
	}
	from, to := m.rank[t.Src], m.rank[t.Dst]
	if e := m.snapshot.Estimate(from, to); !e.Has(netmap.FieldBandwidth|netmap.FieldLatency) || e.Bandwidth <= 0 {
		return pairCost{}, fmt.Errorf("%s→%s: %w", m.snapshot.Host(from).Name, m.snapshot.Host(to).Name, netmap.ErrNotMeasured)
	}
	lasts, err := m.snapshot.TransferTime(from, to, bytes)
	return pairCost{
		lasts:    lasts,
		gap:      m.snapshot.Gap(from, to, bytes),
		overhead: m.snapshot.SendOverhead(from, to, bytes),
	}, err
}
