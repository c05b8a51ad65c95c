package phase

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A relation says for transfers a < b whether b must come after a.
type relation func(a, b int) bool

// contending returns the relation of what shares an arc and is in different blocks of size
// phases (1: phases).
func contending(paths [][][]arc, p *plan.Plan, size int) relation {
	return func(a, b int) bool {
		x, y := &p.Transfers[a], &p.Transfers[b]
		if x.Phase/size == y.Phase/size {
			return false
		}
		for _, l := range paths[x.Src][x.Dst] {
			if slices.Contains(paths[y.Src][y.Dst], l) {
				return true
			}
		}
		return false
	}
}

// closure returns for each of n transfers the set of those before it, for a relation in
// which a < b.
func closure(n int, related relation) [][]bool {
	before := make([][]bool, n)
	for b := range n {
		before[b] = make([]bool, n)
		for a := range b {
			if related(a, b) {
				before[b][a] = true
				for c := range a {
					before[b][c] = before[b][c] || before[a][c]
				}
			}
		}
	}
	return before
}

// reduction returns the one least set of edges with that closure: a→b with nothing between.
func reduction(before [][]bool) [][]int {
	out := make([][]int, len(before))
	for b := range before {
		out[b] = []int{}
		for a := range b {
			covered := !before[b][a]
			for c := a + 1; c < b && !covered; c++ {
				covered = before[c][a] && before[b][c]
			}
			if !covered {
				out[b] = append(out[b], a)
			}
		}
	}
	return out
}

// checkAfter compares the After lists of p with want, and Sync with kind.
func checkAfter(p *plan.Plan, want [][]int, kind Sync) error {
	for i, x := range p.Transfers {
		if !slices.Equal(x.After, want[i]) {
			return fmt.Errorf("transfer %d, %d→%d in phase %d: after %v, want %v", i, x.Src, x.Dst, x.Phase, x.After, want[i])
		}
		if err := checkKind(&x, kind); err != nil {
			return err
		}
	}
	return nil
}

func checkKind(x *plan.Transfer, kind Sync) error {
	if len(x.After) == 0 && x.Sync != "" || len(x.After) > 0 && x.Sync != kind.String() {
		return fmt.Errorf("transfer %d: sync %q with after %v, want %v", x.ID, x.Sync, x.After, kind)
	}
	return nil
}

// A set is a bit for each transfer.
type set []uint64

func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// checkOrder examines the edges of p where there are too many transfers for [reduction]: all
// pairs that contend in different blocks of size phases are ordered, every edge is
// between two such, and none follows from the others.
func checkOrder(paths [][][]arc, p *plan.Plan, size int, kind Sync) error {
	must := contending(paths, p, size)
	n := len(p.Transfers)
	before := make([]set, n)
	users := make(map[arc][]int)
	for b := range p.Transfers {
		x := &p.Transfers[b]
		if err := checkKind(x, kind); err != nil {
			return err
		}
		before[b] = make(set, (n+63)/64)
		for _, a := range x.After {
			if a >= b || !must(a, b) {
				return fmt.Errorf("transfer %d is after %d for no reason", b, a)
			}
			for w, bits := range before[a] {
				before[b][w] |= bits
			}
		}
		for _, a := range x.After {
			if before[b].has(a) {
				return fmt.Errorf("transfer %d: after %v, of which %d is redundant", b, x.After, a)
			}
		}
		for _, a := range x.After {
			before[b][a/64] |= 1 << (a % 64)
		}
		for _, l := range paths[x.Src][x.Dst] {
			for _, a := range users[l] {
				if p.Transfers[a].Phase/size != x.Phase/size && !before[b].has(a) {
					return fmt.Errorf("transfers %d and %d share %v and are not ordered", a, b, l)
				}
			}
			users[l] = append(users[l], b)
		}
	}
	return nil
}
