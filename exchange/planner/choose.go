package planner

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Auto is the name under which users ask for [Choose]. It is no [Algorithm].
const Auto = "auto"

// tie is the relative difference up to which two makespans are equal. The simulator
// divides links ideally, so that the crowds of an unordered exchange cost nothing in it;
// a schedule that avoids them must not lose to them by a latency.
const tie = 0.02

// A Choice is the algorithm that [Choose] took, with its plan.
type Choice struct {
	Algorithm Algorithm
	*Scheduled
	Of int // how many algorithms were compared: those that apply to the problem, 1 if none could be
}

// Choose makes the plan of every algorithm for p and takes the one with the least
// simulated makespan; ties, of up to 2 %, go to the first in the order of [Algorithms]. chunk is that of
// [Schedule]. report, if not nil, is told which algorithm is at work.
//
// Between clusters, algorithms that crowd ([Algorithm.Crowds]) are no candidates: 64 flows
// at once over a link of 1.25 Mbit/s lost thousands of packets, and hosts were taken for dead.
// An algorithm that refuses p is passed over. If all do, the error is the first one's.
// Where the rates of links are not known, it takes the algorithm that is optimal on
// any switch tree of equal links: lr3 or aapc.
func Choose(p *Problem, chunk int64, report func(Algorithm)) (*Choice, error) {
	if p.Snapshot == nil {
		return chooseBlind(p, chunk)
	}
	var close []Choice // those that may still be taken, in order
	var refusal error
	of := 0
	several := len(p.Clusters()) > 1
	for _, alg := range Algorithms(p.collective()) {
		if alg.Crowds && several {
			continue
		}
		if report != nil {
			report(alg)
		}
		s, err := Schedule(alg, p, chunk)
		if err != nil {
			if refusal == nil {
				refusal = err
			}
			continue
		}
		of++
		close = append(close, Choice{Algorithm: alg, Scheduled: s})
		least := close[0].Sim.Makespan
		for _, c := range close {
			least = min(least, c.Sim.Makespan)
		}
		close = slices.DeleteFunc(close, func(c Choice) bool { return c.Sim.Makespan > least*(1+tie) })
	}
	if of == 0 {
		return nil, refusal
	}
	close[0].Of = of
	return &close[0], nil
}

func chooseBlind(p *Problem, chunk int64) (*Choice, error) {
	name := "lr3"
	if p.collective() == plan.Alltoall {
		name = "aapc"
	}
	alg, err := Named(p.collective(), name)
	if err != nil {
		return nil, err
	}
	s, err := Schedule(alg, p, chunk)
	if err != nil {
		return nil, err
	}
	return &Choice{Algorithm: alg, Scheduled: s, Of: 1}, nil
}
