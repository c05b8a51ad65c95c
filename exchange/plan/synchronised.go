package plan

import (
	"cmp"
	"slices"
)

// checkSynchronised: the After edges order what the plan claims to keep apart ([Claim]):
//
//   - with sender or receiver, every two messages of different phases that share a
//     link; in blocks of phases, if strict, every two of different blocks. In blocks and not
//     strict the papers' scheme promises nothing that could be proved.
//   - with barrier, every message and all of the block before it, and inside a
//     block what its own synchronisation claims;
//   - with order, every two messages of one host, and so with sender in blocks and order within;
//   - with dummy, nothing: dummies keep hosts in step and order few messages.
//
// With receiver and barrier no transfer may start when an earlier one has but left, or what is ordered would meet all the same ([checkKind]).
//
// Messages that share a link and a phase have been refused before. So those of a link
// stand in the order of their phases, and it is enough to look at neighbours.
func checkSynchronised(p *Plan, tree *Topology, order []int) error {
	c := p.Sync
	if c == nil || c.Kind == SyncDummy || !p.Phased() {
		return nil
	}
	if err := checkKind(p); err != nil {
		return err
	}
	rank, err := tree.indices(p.Hosts)
	if err != nil {
		return err // as checkContention, which has found them all
	}
	s := synchronisations{plan: p, after: make([]int32, len(p.Transfers))}
	block := max(1, c.Block)
	switch {
	case c.Kind == ClaimOrder:
		s.turns(nil)
	case c.Kind == SyncBarrier:
		s.barriers(block)
		together := func(a, b int) bool { return p.Transfers[a].Phase/block == p.Transfers[b].Phase/block }
		switch {
		case c.Block <= 1 || c.Within == "":
		case c.Within == ClaimOrder:
			s.turns(together)
		default:
			s.links(tree, rank, 1, together)
		}
	case c.Block == 0:
		s.links(tree, rank, 1, nil)
	case c.Strict:
		s.links(tree, rank, block, nil)
	}
	if c.Kind == SyncSender && c.Within == ClaimOrder {
		s.turns(nil)
	}
	pos := make([]int32, len(order))
	for k, t := range order {
		pos[t] = int32(k)
	}
	return s.prove(order, pos)
}

// checkKind: where p claims receiver or barrier, every transfer waits until the earlier ones are complete. With
// barriers around blocks of phases and sender within, those of its own block need only have left, and with order within those of its own source and block. The lead of a claim is its own matter.
func checkKind(p *Plan) error {
	c := p.Sync
	if c.Kind == SyncSender || c.Kind == ClaimOrder {
		return nil
	}
	block := max(1, c.Block)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, k := range t.After {
			a := &p.Transfers[k]
			_, left := t.Teller(a)
			within := c.Kind == SyncBarrier && a.Phase/block == t.Phase/block &&
				(c.Within == SyncSender || c.Within == ClaimOrder && a.Src == t.Src)
			if left && !within {
				return violated(Synchronised, []int{a.ID, t.ID}, "the second starts when the first has left its source, as its sync %q says, and with synchronisation %q it would wait until that is complete", t.Sync, c.Kind)
			}
		}
	}
	return nil
}

// synchronisations are pairs of transfers of which the second must come after the first.
type synchronisations struct {
	plan  *Plan
	pairs []need  // those that After does not name itself
	after []int32 // after[a] == i+1: transfer i names a
}

// barriers asks for every transfer after all those of the block of phases before its own.
func (s *synchronisations) barriers(block int) {
	groups := s.groups(block, s.all())
	for k := 1; k < len(groups); k++ {
		for _, later := range groups[k] {
			s.order(groups[k-1], later)
		}
	}
}

// links asks for every two transfers that share a link, in neighbouring blocks of
// those that use it. If among is given, it says which pairs count.
func (s *synchronisations) links(tree *Topology, rank []int, block int, among func(a, b int) bool) {
	users := make([][]int, tree.NumLinks())
	var path []LinkID
	for _, i := range s.all() {
		t := &s.plan.Transfers[i]
		path = tree.Path(path[:0], rank[t.Src], rank[t.Dst])
		for _, l := range path {
			users[l] = append(users[l], i)
		}
	}
	s.neighbours(users, block, among)
}

// turns asks for every two transfers of one source, in neighbouring phases of those that it sends in.
func (s *synchronisations) turns(among func(a, b int) bool) {
	sent := make([][]int, len(s.plan.Hosts))
	for _, i := range s.all() {
		src := s.plan.Transfers[i].Src
		sent[src] = append(sent[src], i)
	}
	s.neighbours(sent, 1, among)
}

// neighbours asks for order between neighbouring blocks of each of lists, which are in the order of phases.
func (s *synchronisations) neighbours(lists [][]int, block int, among func(a, b int) bool) {
	for _, on := range lists {
		groups := s.groups(block, on)
		for k := 1; k < len(groups); k++ {
			for _, later := range groups[k] {
				if among == nil || among(groups[k-1][0], later) {
					s.order(groups[k-1], later)
				}
			}
		}
	}
}

// all returns the transfers by phase.
func (s *synchronisations) all() []int {
	list := make([]int, len(s.plan.Transfers))
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Compare(s.plan.Transfers[a].Phase, s.plan.Transfers[b].Phase)
	})
	return list
}

// groups cuts a list that is in the order of phases where a new block begins.
func (s *synchronisations) groups(block int, list []int) [][]int {
	var groups [][]int
	for i, t := range list {
		if i == 0 || s.plan.Transfers[t].Phase/block != s.plan.Transfers[list[i-1]].Phase/block {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], t)
	}
	return groups
}

// order asks for later after each of earlier.
func (s *synchronisations) order(earlier []int, later int) {
	for _, a := range s.plan.Transfers[later].After {
		s.after[a] = int32(later) + 1
	}
	for _, a := range earlier {
		if s.after[a] != int32(later)+1 {
			s.pairs = append(s.pairs, need{int32(later), int32(a), Block{}})
		}
	}
}

// prove looks the pairs up in the closure of After.
func (s *synchronisations) prove(order []int, pos []int32) error {
	kept := s.pairs[:0]
	for _, n := range s.pairs {
		if pos[n.deliverer] > pos[n.sender] {
			return s.loose(n)
		}
		kept = append(kept, n)
	}
	if n, ok := unreached(s.plan, kept, order, pos); ok {
		return s.loose(n)
	}
	return nil
}

func (s *synchronisations) loose(n need) error {
	a, b := &s.plan.Transfers[n.deliverer], &s.plan.Transfers[n.sender]
	return violated(Synchronised, []int{a.ID, b.ID}, "of phases %d and %d, and nothing makes the second wait for the first, as synchronisation %q says",
		a.Phase, b.Phase, s.plan.Sync.Kind)
}
