package plan

import (
	"errors"
	"fmt"
)

// ErrStalled is returned, wrapped with the transfers that wait, where a plan cannot
// come to its end: something waits for data that nothing brings first.
var ErrStalled = errors.New("plan stalls")

// SimOptions say how the engine that is predicted runs a plan.
type SimOptions struct {
	// Chunk is the unit in bytes in which blocks travel and are forwarded: a host
	// forwards a chunk when it has it, and After entries that bring a transfer its data
	// hold back only the chunks that are not there. 0 means whole blocks: every After
	// entry must be complete first, to the letter of the plan.
	Chunk int64
	// Overtake lets what is ready pass what waits for data or a synchronisation before
	// it in the queue to the same destination. False is a strict queue.
	Overtake bool
	// Notice charges a synchronisation for the way of the news, one latency to the host
	// that starts the later transfer: from the source of the earlier one when its last
	// byte has left, where Sync of the later is [SyncSender]; else from its destination when it is
	// complete, or with a lead ([Plan.Ahead]) nearly so. False is the model of the papers, in which
	// hosts know of completion at once, and wait for it.
	Notice bool
}

// A SimResult is what [Simulate] predicts. Slices are the caller's.
type SimResult struct {
	Makespan   float64   // seconds from the start to the last arrival
	Start, End []float64 // per transfer: first byte sent and last byte arrived, in seconds
	// PoolBytes is P×P, [from*P+to]: bytes sent between pools, and on the diagonal inside them.
	PoolBytes []int64
}

// Stamp writes the predicted times into p.
func (r *SimResult) Stamp(p *Plan) {
	for i := range p.Transfers {
		p.Transfers[i].Start, p.Transfers[i].End = r.Start[i], r.End[i]
	}
	p.Makespan = r.Makespan
}

// maxChunks bounds the events of one simulation.
const maxChunks = 1 << 24

// Simulate predicts how long p takes on net, at the level of flows: all pairs of hosts
// that have something to send share ports and pipes max-min fairly, and bytes arrive
// one latency after they were sent. Each host keeps one queue per destination, in the
// order of [Plan.Order], and serves all destinations at once, as the engine does.
// Slow start, loss, packet headers, and the processor (LogP's os and or) are not in
// the model. The prediction never is under [AllgatherBound] of the same network.
// A flow holds the receiver's port, as all else, from when its bytes are sent; SimGrid holds
// it a latency later, which made up to 1.6 % on random grids (internal/peers/smpi).
//
// It is deterministic. p should have passed [Verify]; of one that has not, Simulate
// returns an error where data is never there ([ErrStalled]), not a panic. Pairs that p
// uses and net does not know give [netmap.ErrNotMeasured].
func Simulate(p *Plan, net *Network, opts SimOptions) (*SimResult, error) {
	s, err := newSimulation(p, net, opts)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	s.run()
	if err := s.stalled(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return s.result, nil
}
