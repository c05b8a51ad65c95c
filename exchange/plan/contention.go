package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// checkContention: no two transfers of one phase share a directed link of the tree,
// the links of hosts included (Faraj & Yuan, IPDPS 2005, §2). A plan without phases claims
// nothing; one in which only some transfers have a phase does not say when the others go.
func checkContention(p *Plan, tree *Topology) error {
	rank, err := tree.indices(p.Hosts)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	byPhase := make([]int, 0, len(p.Transfers))
	without := -1
	for i := range p.Transfers {
		if p.Transfers[i].Phase >= 0 {
			byPhase = append(byPhase, i)
		} else {
			without = i
		}
	}
	if without >= 0 && len(byPhase) > 0 {
		return violated(ContentionFree, []int{without}, "has no phase, as others have: nothing says whom it meets")
	}
	slices.SortStableFunc(byPhase, func(a, b int) int {
		return cmp.Compare(p.Transfers[a].Phase, p.Transfers[b].Phase)
	})
	user := make([]int, tree.NumLinks()) // the last transfer on each link
	for i := range user {
		user[i] = -1
	}
	var path []LinkID
	for _, i := range byPhase {
		t := &p.Transfers[i]
		path = tree.Path(path[:0], rank[t.Src], rank[t.Dst])
		for _, l := range path {
			if u := user[l]; u >= 0 && p.Transfers[u].Phase == t.Phase {
				from, to := tree.Ends(l)
				return violated(ContentionFree, []int{u, i}, "both use link %s→%s in phase %d", from, to, t.Phase)
			}
			user[l] = i
		}
	}
	return nil
}
