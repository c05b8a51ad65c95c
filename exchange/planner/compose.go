package planner

import (
	"cmp"
	"slices"

	"github.com/gridagent/gridagent/exchange/packed"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
)

// min3Ring composes two levels into one plan: between the leaf pools the transfers of
// Min3, and inside each leaf, where all hosts are alike, a logical ring. Gupta & Vadhiyar
// find that Min3 loses to other algorithms inside one cluster (HPDC 2007, §6.3), where
// Faraj, Patarasuk & Yuan's ring is optimal on any switch tree.
//
// Where the switches of the cluster are known or measurements tell of them the ring is LR3's, else in the order of ranks.
//
// Every block goes round the leaf from the host that contributes it, or by which it enters, so
// that each ring link carries each block once, and Min3's transfers to other pools find
// their blocks where they expect them. The plan has no times of its own: ring transfers do
// not keep to the host model.
func (p *Problem) min3Ring() (*plan.Plan, error) {
	made, err := p.min3()
	if err != nil {
		return nil, err
	}
	c := composer{from: made, leaves: p.min3Tree().Leaves(), leaf: make([]int, len(made.Hosts))}
	if p.Topology != nil { // one leaf, and how its ring runs matters
		order, _ := ring.LR3(p.Topology)
		c.leaves = [][]int{order}
	} else {
		for k, hosts := range c.leaves {
			c.leaves[k] = p.ringOf(hosts)
		}
	}
	for k, hosts := range c.leaves {
		for _, h := range hosts {
			c.leaf[h] = k
		}
	}
	return c.compose(), nil
}

// packed makes the plan of package packed over the clusters: pieces on the trees that balance the links, and
// in each cluster a ring.
func (p *Problem) packed() (*plan.Plan, error) {
	if err := p.needRates(); err != nil {
		return nil, err
	}
	b, err := p.believed()
	if err != nil {
		return nil, err
	}
	rings := p.Clusters()
	if p.Topology != nil { // one cluster, and how its ring runs matters
		order, _ := ring.LR3(p.Topology)
		rings = [][]int{order}
	} else {
		for k, hosts := range rings {
			rings[k] = p.ringOf(hosts)
		}
	}
	return packed.Allgather(b.net, rings, p.Sizes, b.blind)
}

// ringOf returns the hosts of a leaf in the order of their ring: LR3's where their switches are known, or measurements tell of them.
func (p *Problem) ringOf(hosts []int) []int {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = p.Snapshot.Host(h).Name
	}
	for _, t := range p.LANs {
		if len(hosts) < 3 || !t.Covers(names) {
			continue
		}
		part, err := t.Subset(names)
		if err != nil {
			continue // covered, so it cannot be
		}
		return around(part, hosts)
	}
	if t := guess(p.Snapshot, hosts); t != nil {
		return around(t, hosts)
	}
	return hosts
}

// around returns hosts, those of t in the same order, in the order of LR3.
func around(t *plan.Topology, hosts []int) []int {
	order, _ := ring.LR3(t)
	ring := make([]int, len(order))
	for i, k := range order {
		ring[i] = hosts[k]
	}
	return ring
}

// A composer replaces the transfers inside the leaf pools of a plan by rings.
type composer struct {
	from   *plan.Plan
	leaves [][]int
	leaf   []int // per host

	moves []move
}

// A move is a transfer of one block before it has a number.
type move struct {
	src, dst, origin int
	at               float64 // when Min3 expects the block at src, in seconds
	hop              int     // how far round the ring; 0 between pools
}

func (c *composer) compose() *plan.Plan {
	n := len(c.from.Hosts)
	for h := range n {
		c.round(h, h, 0)
	}
	for i := range c.from.Transfers {
		t := &c.from.Transfers[i]
		if c.leaf[t.Src] == c.leaf[t.Dst] {
			continue
		}
		for _, b := range t.Blocks {
			c.moves = append(c.moves, move{src: t.Src, dst: t.Dst, origin: b.Origin, at: t.Start})
			c.round(t.Dst, b.Origin, t.End)
		}
	}
	// A block is where it comes from no later than it is sent on, and of one block's moves
	// those of one time stand in the order of its way.
	slices.SortStableFunc(c.moves, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.hop, b.hop), cmp.Compare(a.origin, b.origin))
	})
	p := &plan.Plan{
		Collective: plan.Allgather, Algorithm: "min3+ring", Hosts: c.from.Hosts,
		MessageBytes: c.from.MessageBytes, Sizes: c.from.Sizes,
		Transfers: make([]plan.Transfer, len(c.moves)),
	}
	brought := make([]int, n*n) // [host*n+origin]: 1 + the transfer that brings the block
	for i, m := range c.moves {
		brought[m.dst*n+m.origin] = i + 1
	}
	for i, m := range c.moves {
		t := plan.Transfer{ID: i, Src: m.src, Dst: m.dst, Phase: -1, After: []int{},
			Blocks: []plan.Block{{Origin: m.origin, Dest: plan.All}}}
		if k := brought[m.src*n+m.origin]; k > 0 {
			t.After = append(t.After, k-1)
		}
		p.Transfers[i] = t
	}
	return p
}

// round sends a block round the leaf of host, which has it at a time.
func (c *composer) round(host, origin int, at float64) {
	order := c.leaves[c.leaf[host]]
	first := slices.Index(order, host)
	for hop := 1; hop < len(order); hop++ {
		c.moves = append(c.moves, move{
			src: order[(first+hop-1)%len(order)], dst: order[(first+hop)%len(order)],
			origin: origin, at: at, hop: hop,
		})
	}
}
