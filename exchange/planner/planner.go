package planner

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Scheduled plan comes with what the network model says of it.
type Scheduled struct {
	Plan    *plan.Plan
	Network *plan.Network   // nil where the rates of links are not known; then
	Bound   plan.Bound      // the bound is of 0 s
	Sim     *plan.SimResult // and this is nil
	// Direct is what bounds an alltoall that does not relay, where there is such a bound
	// ([plan.AlltoallBounds]); Bound is the relayed one.
	Direct plan.Bound
}

// Schedule makes the plan of alg for p, bounds it, and simulates it as the engine runs it, with
// chunks of so many bytes. With a chunk size of 0 it is simulated to the letter, block by
// block and with hosts that know at once what others have done.
func Schedule(alg Algorithm, p *Problem, chunk int64) (*Scheduled, error) {
	made, err := alg.Make(p)
	if err != nil {
		return nil, err
	}
	return Assess(alg, p, made, chunk)
}

// Assess bounds and simulates a plan that alg made for p, and fills in the plan's
// bound and, where the algorithm has no cost model of its own, its times.
func Assess(alg Algorithm, p *Problem, made *plan.Plan, chunk int64) (*Scheduled, error) {
	network, err := p.network()
	if err != nil {
		return nil, err
	}
	if network == nil {
		return &Scheduled{Plan: made, Bound: plan.Bound{Host: -1}}, nil
	}
	bound, err := p.bound(network)
	if err != nil {
		return nil, err
	}
	made.Bound = bound.Seconds
	// The plan's own times keep its order to the letter, so that a verifier can judge them.
	letter, err := plan.Simulate(made, network, plan.SimOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", alg.Name, err)
	}
	if !alg.Timed {
		letter.Stamp(made)
	}
	sim := letter
	if chunk > 0 {
		if sim, err = plan.Simulate(made, network, plan.SimOptions{Chunk: chunk, Overtake: true, Notice: true}); err != nil {
			return nil, fmt.Errorf("%s: %w", alg.Name, err)
		}
	}
	s := &Scheduled{Plan: made, Network: network, Bound: bound, Sim: sim}
	if p.bounds != nil {
		s.Direct = p.bounds.Direct
	}
	return s, nil
}
