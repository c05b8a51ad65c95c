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
}

// Schedule makes the plan of alg for p, bounds it and simulates it: with a chunk size of 0
// to the letter, block by block; else as the engine runs it, with chunks of so many bytes.
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
	sim, err := plan.Simulate(made, network, simOptions(chunk))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", alg.Name, err)
	}
	made.Bound = bound.Seconds
	if !alg.Timed {
		sim.Stamp(made)
	}
	return &Scheduled{Plan: made, Network: network, Bound: bound, Sim: sim}, nil
}

// simOptions tell the simulator how package exchange runs a plan, if it does so in chunks.
func simOptions(chunk int64) plan.SimOptions {
	return plan.SimOptions{Chunk: chunk, Overtake: chunk > 0, Notice: chunk > 0}
}
