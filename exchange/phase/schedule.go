package phase

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Schedule returns the AAPC plan of t's machines, "aapc": every message sent directly, in
// Load(t) phases, with the synchronisations of opt. Hosts are those of t. The plan
// predicts nothing: times are 0.
//
// Phases do not know sizes. Where a matrix makes them differ, the phases stay free of
// contention, but no longer are the best possible.
//
// It returns an error for sizes and options that make no sense, and where the
// synchronisations would not fit into memory.
func Schedule(t *plan.Topology, sizes plan.AlltoallSizes, opt Options) (*plan.Plan, error) {
	p, err := plan.NewAlltoall("aapc", slices.Clone(t.Hosts()), sizes)
	if err != nil {
		return nil, err
	}
	if err := opt.Check(); err != nil {
		return nil, fmt.Errorf("aapc: %w", err)
	}
	if opt.Sync == Auto {
		opt = Tuned(t, sizes)
	}
	v := newView(t)
	messages := v.assign()
	after, err := synchronise(t, messages, v.phases, opt)
	if err != nil {
		return nil, fmt.Errorf("aapc: %w", err)
	}
	p.Phases = v.phases
	p.Sync = opt.claim()
	p.Transfers = transfers(messages, after)
	if err := p.Check(); err != nil { // only now is the sum of all bytes known
		return nil, fmt.Errorf("aapc: %w", err)
	}
	return p, nil
}

// transfers makes one of each message. Blocks and After lie in one slice each: a large
// plan has millions of them.
func transfers(messages []message, after edges) []plan.Transfer {
	out := make([]plan.Transfer, len(messages))
	blocks := make([]plan.Block, len(messages))
	ids := make([]int, len(after.list))
	for i, id := range after.list {
		ids[i] = int(id)
	}
	for i, m := range messages {
		src, dst := int(m.src), int(m.dst)
		blocks[i] = plan.Block{Origin: src, Dest: dst}
		out[i] = plan.Transfer{
			ID: i, Src: src, Dst: dst, Phase: int(m.phase),
			Blocks: blocks[i : i+1 : i+1],
			After:  []int{},
		}
		if from, to := after.bounds(i); from < to {
			out[i].After = ids[from:to:to]
			out[i].Sync = after.kind[i].String()
		}
	}
	return out
}
