package main

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
)

// sizes are the numbers of hosts of every series.
var sizes = []int{8, 16, 32, 64, 128, 256, 512, 1024}

// A series is one thing to measure, at all sizes. Its benchmark is Benchmark/name/n=….
type series struct {
	group string // a heading of the page
	name  string // within the group; no spaces, no slashes
	world string
	// prepare does, for n hosts, what is not to be measured. The run that it returns says
	// how many transfers the plan has that it made or read.
	prepare func(n int) (run, error)
}

type run func() (transfers int, err error)

// path is the name under which the series' sizes are sub-benchmarks.
func (s series) path() string { return s.group + "/" + s.name }

// variants are the options of an algorithm that change what it costs.
var variants = []struct {
	algorithm, option string
	set               func(*planner.Options)
}{
	{"min3", "half", func(o *planner.Options) { o.Duplex = plan.HalfDuplex }},
	{"broadcast-trees", "binomial", func(o *planner.Options) { o.Trees = baseline.Binomial }},
	{"broadcast-trees", "mateescu", func(o *planner.Options) { o.Trees = baseline.Mateescu }},
	{"aapc", "sender", func(o *planner.Options) { o.AAPC.Sync = phase.Sender }},
	{"aapc", "receiver", func(o *planner.Options) { o.AAPC.Sync = phase.Receiver }},
	{"aapc", "strict16", func(o *planner.Options) {
		o.AAPC = phase.Options{Sync: phase.Receiver, Block: 16, Strict: true}
	}},
	{"aapc", "dummy", func(o *planner.Options) { o.AAPC.Sync = phase.Dummy }},
	{"aapc", "barrier", func(o *planner.Options) { o.AAPC.Sync = phase.Barrier }},
}

// allSeries returns every series, in the order of the page.
func allSeries() ([]series, error) {
	var all []series
	for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
		for _, a := range planner.Algorithms(c) {
			w, err := worldOf(c, a)
			if err != nil {
				return nil, err
			}
			all = append(all, schedule(c, a, w, "", func(*planner.Options) {}))
			if a.Name == "min3" {
				all = append(all, min3Shared(w))
			}
			for _, v := range variants {
				if v.algorithm == a.Name {
					all = append(all, schedule(c, a, w, "-"+v.option, v.set))
				}
			}
		}
	}
	return append(all, steps()...), nil
}

// worldOf returns the first world that the algorithm accepts.
func worldOf(c plan.Collective, a planner.Algorithm) (world, error) {
	var refusal error
	for _, w := range worlds {
		p, err := w.problem(sizes[2]) // the least at which there are three switches
		if err != nil {
			return world{}, fmt.Errorf("%s of %d hosts: %w", w.name, sizes[2], err)
		}
		p.Collective = c
		if _, err = a.Make(p); err == nil {
			return w, nil
		}
		refusal = err
	}
	return world{}, fmt.Errorf("%s %s is refused everywhere, at last with: %w", c, a.Name, refusal)
}

// schedule is the series of an algorithm with an option.
func schedule(c plan.Collective, a planner.Algorithm, w world, suffix string, set func(*planner.Options)) series {
	return series{string(c), a.Name + suffix, w.name, func(n int) (run, error) {
		p, err := w.problem(n)
		if err != nil {
			return nil, err
		}
		p.Collective = c
		set(&p.Options)
		return func() (int, error) { return transfers(a.Make(p)) }, nil
	}}
}

// min3Shared is min3 where the hosts of a site share its links.
func min3Shared(w world) series {
	return series{string(plan.Allgather), "min3-shared", w.name, func(n int) (run, error) {
		p, err := w.problem(n)
		if err != nil {
			return nil, err
		}
		opt := min3.Options{Duplex: plan.FullDuplex, Links: min3.Shared}
		return func() (int, error) { return transfers(min3.Schedule(p.Snapshot, p.Tree, p.Sizes, opt)) }, nil
	}}
}

// planSteps is the group of what happens before and after scheduling.
const planSteps = "steps"

// steps measure the way from a map to a proven and predicted plan, and the choice among all.
func steps() []series {
	onGrid, onRacks := worlds[0], worlds[1]
	return []series{
		{planSteps, "pools", onGrid.name, func(n int) (run, error) {
			p, err := onGrid.problem(n)
			if err != nil {
				return nil, err
			}
			return func() (int, error) {
				_, err := pools.Build(p.Snapshot, pools.Config{})
				return 0, err
			}, nil
		}},
		onPlan("verify-min3", onGrid, plan.Allgather, "min3", verify),
		onPlan("verify-aapc", onRacks, plan.Alltoall, "aapc", verify),
		onPlan("simulate-min3", onGrid, plan.Allgather, "min3", simulate),
		onPlan("simulate-aapc", onRacks, plan.Alltoall, "aapc", simulate),
		choose("choose-allgather", onGrid, plan.Allgather),
		choose("choose-alltoall", onGrid, plan.Alltoall),
	}
}

// onPlan is the series of something done with the plan of an algorithm.
func onPlan(name string, w world, c plan.Collective, algorithm string, do func(*planner.Problem, *plan.Plan) error) series {
	return series{planSteps, name, w.name, func(n int) (run, error) {
		p, err := w.problem(n)
		if err != nil {
			return nil, err
		}
		p.Collective = c
		p.AAPC.Sync = phase.Receiver
		a, err := planner.Named(c, algorithm)
		if err != nil {
			return nil, err
		}
		made, err := a.Make(p)
		if err != nil {
			return nil, err
		}
		return func() (int, error) { return len(made.Transfers), do(p, made) }, nil
	}}
}

// verify proves a plan with all rules that it is made for.
func verify(p *planner.Problem, made *plan.Plan) error {
	if p.Topology != nil {
		return plan.Verify(made, plan.Rules{Topology: p.Topology})
	}
	return plan.Verify(made, plan.Rules{Pools: p.Tree.Sets(), Duplex: plan.FullDuplex, Snapshot: p.Snapshot})
}

// simulate predicts a plan block by block.
func simulate(p *planner.Problem, made *plan.Plan) error {
	_, err := planner.Assess(planner.Algorithm{Name: made.Algorithm, Timed: true}, p, made, 0)
	return err
}

// choose is what an agent does where the user names no algorithm.
func choose(name string, w world, c plan.Collective) series {
	return series{planSteps, name, w.name, func(n int) (run, error) {
		p, err := w.problem(n)
		if err != nil {
			return nil, err
		}
		p.Collective = c
		return func() (int, error) {
			best, err := planner.Choose(p, 0, nil)
			if err != nil {
				return 0, err
			}
			return len(best.Plan.Transfers), nil
		}, nil
	}}
}

func transfers(p *plan.Plan, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(p.Transfers), nil
}
