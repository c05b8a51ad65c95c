package ring

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Kind names a construction, as plans and the command line do.
type Kind string

// The constructions.
const (
	KindLR1 Kind = "lr1" // depth-first, see [LR1]
	KindLR2 Kind = "lr2" // two hops where they are possible, see [LR2]
	KindLR3 Kind = "lr3" // shortest maximum path, see [LR3]
)

// Order returns the ring of the given kind and its maximum path length in switches. It
// fails for an unknown kind, and for [KindLR2] where [LR2] does.
func Order(t *plan.Topology, kind Kind) (order []int, path int, err error) {
	switch kind {
	case KindLR1:
		order, path = LR1(t)
	case KindLR2:
		return LR2(t)
	case KindLR3:
		order, path = LR3(t)
	default:
		err = fmt.Errorf("ring: no construction %q; there are %s, %s and %s", kind, KindLR1, KindLR2, KindLR3)
	}
	return order, path, err
}

// Allgather returns the allgather of all hosts of t over the ring of the given kind (§3.1):
// in each of N−1 steps every host sends its successor the block that it received in the
// step before, its own in the first. sizes is one size in bytes for all blocks or one for
// each rank; 0 is a size. The error names what is wrong with kind, tree or sizes.
//
// The phase of a transfer is its step, and the transfers of a step share no link. A
// transfer waits for its data and for nothing else. The paper's program is a loop of
// blocking calls, in which a host also waits until its own last block has arrived. That
// would prevent nothing: the same pairs talk in every step and no two of them share a
// link, so what shares a link has one source and one destination, and the engine keeps
// these in order. But it would idle every link for one latency a step. (Simulated, 16
// hosts of 1 MiB at 100 Mbit/s in chunks of 16 KiB: 1.259 s against 1.273 s where the
// latency is 1 ms, 1.278 s against 1.558 s where it is 20 ms; the bound is 1.258 s.)
func Allgather(t *plan.Topology, kind Kind, sizes []int64) (*plan.Plan, error) {
	order, _, err := Order(t, kind)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Collective: plan.Allgather, Algorithm: string(kind), Hosts: slices.Clone(t.Hosts())}
	if err := setSizes(p, sizes); err != nil {
		return nil, err
	}
	n := len(order)
	p.Phases = n - 1
	p.Transfers = make([]plan.Transfer, 0, n*(n-1))
	blocks := make([]plan.Block, n*(n-1))
	after := make([]int, n*(n-1))
	for step := range n - 1 {
		for i, src := range order {
			id := len(p.Transfers)
			blocks[id] = plan.Block{Origin: order[(i-step+n)%n], Dest: plan.All}
			t := plan.Transfer{ID: id, Src: src, Dst: order[(i+1)%n], Phase: step}
			t.Blocks, t.After = blocks[id:id+1:id+1], after[:0:0]
			if step > 0 { // what the predecessor sent in the step before
				after[id] = (step-1)*n + (i-1+n)%n
				t.After = after[id : id+1 : id+1]
			}
			p.Transfers = append(p.Transfers, t)
		}
	}
	return p, nil
}

func setSizes(p *plan.Plan, sizes []int64) error {
	if len(sizes) != 1 && len(sizes) != len(p.Hosts) {
		return fmt.Errorf("%s: %d block sizes for %d hosts: want one, or one for each",
			p.Algorithm, len(sizes), len(p.Hosts))
	}
	if slices.Min(sizes) == slices.Max(sizes) {
		p.MessageBytes = sizes[0]
	} else {
		p.Sizes = slices.Clone(sizes)
	}
	if err := p.Check(); err != nil { // of sizes out of range; there are no transfers yet
		return fmt.Errorf("%s: %w", p.Algorithm, err)
	}
	return nil
}
