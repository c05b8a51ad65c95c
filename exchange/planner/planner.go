package planner

import (
	"fmt"
	"strings"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Problem is one allgather to be scheduled.
type Problem struct {
	Snapshot *netmap.Snapshot
	Tree     *pools.Tree // of the hosts of Snapshot
	Sizes    []int64     // bytes that each host contributes
	Duplex   plan.Duplex // host model of the algorithms that have one
}

func (p *Problem) hosts() []string { return p.Snapshot.Names() }

// An Algorithm makes the plan of an allgather.
type Algorithm struct {
	Name string
	// Timed says that the plan carries predicted times of the algorithm's own cost
	// model; the simulator supplies them otherwise.
	Timed bool
	Make  func(*Problem) (*plan.Plan, error)
}

// Allgathers lists the algorithms for allgather. A new one is a row here.
func Allgathers() []Algorithm {
	return []Algorithm{
		{"min3", true, func(p *Problem) (*plan.Plan, error) {
			return min3.Schedule(p.Snapshot, p.Tree, p.Sizes, min3.Options{Duplex: p.Duplex})
		}},
		{"magpie", false, func(p *Problem) (*plan.Plan, error) { return baseline.MagPIe(p.hosts(), p.Sizes, p.Tree.Leaves()) }},
		{"ring", false, func(p *Problem) (*plan.Plan, error) { return baseline.Ring(p.hosts(), p.Sizes) }},
		{"spreading-simple", false, func(p *Problem) (*plan.Plan, error) { return baseline.SpreadingSimple(p.hosts(), p.Sizes) }},
		{"recursive-doubling", false, func(p *Problem) (*plan.Plan, error) { return baseline.RecursiveDoubling(p.hosts(), p.Sizes) }},
		{"bruck", false, func(p *Problem) (*plan.Plan, error) { return baseline.Bruck(p.hosts(), p.Sizes) }},
	}
}

// An UnknownError means that there is no algorithm of that name.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no algorithm %q for allgather; there are %s", e.Name, strings.Join(e.Known, ", "))
}

// Named returns the algorithm called name, or an [UnknownError].
func Named(name string) (Algorithm, error) {
	all := Allgathers()
	known := make([]string, len(all))
	for i, a := range all {
		if a.Name == name {
			return a, nil
		}
		known[i] = a.Name
	}
	return Algorithm{}, &UnknownError{Name: name, Known: known}
}

// A Scheduled plan comes with what the network model says of it.
type Scheduled struct {
	Plan  *plan.Plan
	Bound plan.Bound
	Sim   *plan.SimResult
}

// Schedule makes the plan of alg for p, bounds it and simulates it as the engine runs
// it, chunk by chunk where chunk is not 0 (see [plan.SimOptions]).
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
	network, err := plan.NetworkOf(p.Snapshot, p.Tree.Leaves(), 1)
	if err != nil {
		return nil, err
	}
	bound, err := network.AllgatherBound(p.Sizes)
	if err != nil {
		return nil, err
	}
	sim, err := plan.Simulate(made, network, plan.SimOptions{Chunk: chunk})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", alg.Name, err)
	}
	made.Bound = bound.Seconds
	if !alg.Timed {
		sim.Stamp(made)
	}
	return &Scheduled{Plan: made, Bound: bound, Sim: sim}, nil
}
