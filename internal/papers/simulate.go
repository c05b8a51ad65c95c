package main

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
)

// made3 is Min3 by the planner, which knows what shared links need.
func made3(p *planner.Problem) (*plan.Plan, error) {
	alg, err := planner.Named(plan.Allgather, "min3")
	if err != nil {
		return nil, err
	}
	return alg.Make(p)
}

// prepare makes and proves the plan of c, and the record that a time of it goes into.
func prepare(a *arena, c *contender, size int64) (*plan.Plan, Record, error) {
	r := Record{Tool: "gridagent", Collective: string(c.collective), Algorithm: c.algorithm, Variant: c.variant,
		Grid: a.name, Hosts: a.hosts(), SizeBytes: size}
	p, err := c.make(a, size)
	if err != nil {
		return nil, r, fmt.Errorf("%s on %s: %w", c.name(), a.name, err)
	}
	rules := plan.Rules{Topology: a.topology}
	if c.peer { // no claim of theirs
		rules.Topology = nil
	}
	if c.algorithm == "min3" {
		rules.Duplex, rules.Snapshot = min3.Full, a.problem.Snapshot
		if c.variant == "half" {
			rules.Duplex = min3.Half
		}
	}
	if err := plan.Verify(p, rules); err != nil {
		return nil, r, fmt.Errorf("%s on %s: %w", c.name(), a.name, err)
	}
	r.Verified = true
	if r.Plan, err = digestOf(p); err != nil {
		return nil, r, fmt.Errorf("%s on %s: %w", c.name(), a.name, err)
	}
	if r.Bound, err = a.bound(c.collective, size); err != nil {
		return nil, r, fmt.Errorf("%s: %w", a.name, err)
	}
	return p, r, nil
}

// simulated predicts c in the flow model, as the engine runs it.
func simulated(a *arena, c *contender, size int64) (Record, *plan.Plan, *plan.SimResult, error) {
	p, r, err := prepare(a, c, size)
	if err != nil {
		return r, nil, nil, err
	}
	r.Source = Simulated
	sim, err := plan.Simulate(p, a.network, plan.SimOptions{Chunk: int64(exchange.DefaultChunk(size)), Overtake: true, Notice: true})
	if err != nil {
		return r, nil, nil, fmt.Errorf("%s on %s: %w", c.name(), a.name, err)
	}
	return r.one(sim.Makespan), p, sim, nil
}

// modelled predicts c in the host model of Gupta & Vadhiyar, §4.
func modelled(a *arena, c *contender, size int64, duplex plan.Duplex) (Record, *plan.Plan, *plan.SimResult, error) {
	p, r, err := prepare(a, c, size)
	if err != nil {
		return r, nil, nil, err
	}
	r.Source = ModelFull
	if duplex == plan.HalfDuplex {
		r.Source = ModelHalf
	}
	r.Bound = a.portBound(size)
	sim, err := plan.SimulatePorts(p, a.problem.Snapshot, duplex)
	if err != nil {
		return r, nil, nil, fmt.Errorf("%s on %s: %w", c.name(), a.name, err)
	}
	return r.one(sim.Makespan), p, sim, nil
}
