package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/openshop"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
)

// tie is the relative difference up to which two forecasts are equal. Links are shared
// ideally in them, so that the crowds of an unordered exchange cost nothing; a schedule that
// avoids them must not lose to them by a latency.
const tie = 0.02

// Select takes the algorithm for p with the least predicted time: its forecast, times the
// factor that advice has for it. Ties, of up to 2 %, go to the first in the order of [Algorithms].
// chunk is that of [Schedule].
//
// On one switch tree they are none either, for more bytes than the ports of switches hold ([phase.Crowds], [phase.Fits]), and
// where cables join its switches, no alltoall is but aapc and shift then: all hosts of a switch would send over one cable. Where the cables are guessed ([guess]) it is
// shift: on four switches with eight hosts each that takes 1.17 times the bound, group-shuffle 1.6, and aapc as if on one switch 1.4 to 2.4. For blocks
// that differ in size it may be open-shop as well, in which each host sends to one other at a time too. Phases have more to synchronise than a shift exchange: with 32 hosts on two
// processors alltoalls of 4 KiB over four declared switches of 100 Mbit/s took 0.54 to 0.62 s by aapc, and take 0.17 to 0.23 by shift.
//
// Of messages that differ in size, group-shuffle is none there either: its forecast says 1.07 times the bound where 24 hosts take 1.3 to 1.6, as a round is as long
// as its longest message, and meets others at the ports.
//
// It makes no plan that cannot win: none of an algorithm once a plan is as good as the bound, and it
// forecasts none whose bytes alone take too long on some port or link, and none further than to one and a half times
// the best so far. Between clusters,
// algorithms that crowd ([Algorithm.Crowds]) are no candidates for more bytes than the path
// itself holds, or a queue has room for: 64 flows at once over a link of 1.25 Mbit/s lost thousands of packets, and hosts were
// taken for dead. Inside one cluster those that look at links between clusters are none
// ([Algorithm.Across]).
//
// An algorithm that refuses p is passed over. If all do, the error is the first one's. Where the
// rates of links are not known, it takes the algorithm that is optimal on any switch tree of
// equal links: lr3 or aapc. The plan has passed plan.Check and no more.
func Select(p *Problem, chunk int64, advice Advice) (*Selection, error) {
	if p.Snapshot == nil {
		return selectBlind(p)
	}
	s, err := newSelector(p, chunk, advice)
	if err != nil {
		return nil, err
	}
	s.tryAll()
	return s.selection()
}

// tryAll looks at every algorithm.
func (s *selector) tryAll() {
	one := len(s.problem.Clusters()) == 1
	crowded := !one && !s.fitsPath()
	var only []string // all others would crowd the cables between switches; nil: none would
	if one {
		crowded, only = s.crowded()
	}
	even := phase.Even(s.problem.Snapshot.N(), s.problem.Alltoall)
	for _, alg := range Algorithms(s.problem.collective()) {
		c := Candidate{Algorithm: alg.Name, Factor: s.advice.factor(alg.Name)}
		switch {
		case alg.Name == openshop.Name && even:
			c.Why = "it is for blocks that differ in size"
		case alg.Crowds && crowded, alg.Name == groupName && one && crowded && !even, only != nil && !slices.Contains(only, alg.Name):
			c.Why = "it crowds the links"
		case alg.Across && one:
			c.Why = "it is for links between pools"
		default:
			c.Why = s.try(alg, &c)
		}
		s.candidates = append(s.candidates, c)
	}
}

// crowded reports whether hosts of one cluster that all send at once overrun ports, and which algorithms alone keep cables between switches
// from it, if there are any: the phases on a declared tree, and on any what has each host send to one other at a time.
func (s *selector) crowded() (crowded bool, only []string) {
	p := s.problem
	if p.collective() != plan.Alltoall {
		all := int64(0)
		for _, size := range p.Sizes {
			all += size
		}
		return !phase.Fits(all), nil
	}
	t, err := p.cables()
	switch {
	case err != nil || !phase.Crowds(t, p.Alltoall):
		return false, nil
	case p.guess() != nil:
		return true, []string{shiftName, openshop.Name}
	case len(s.network.Trunks) > 0:
		return true, []string{aapcName, shiftName, openshop.Name}
	}
	return true, nil
}

// SelectNamed makes the plan of alg and forecasts it, as [Select] does for the best of all.
func SelectNamed(alg Algorithm, p *Problem, chunk int64, advice Advice) (*Selection, error) {
	if p.Snapshot == nil {
		made, err := alg.Make(p)
		if err != nil {
			return nil, err
		}
		taken := Candidate{Algorithm: alg.Name, Factor: 1}
		return &Selection{Algorithm: alg, Plan: made, Bound: plan.Bound{Host: -1}, Taken: taken, Candidates: []Candidate{taken}}, nil
	}
	s, err := newSelector(p, chunk, advice)
	if err != nil {
		return nil, err
	}
	c := Candidate{Algorithm: alg.Name, Factor: advice.factor(alg.Name)}
	c.Why = s.try(alg, &c)
	s.candidates = append(s.candidates, c)
	return s.selection()
}

// Rivals forecasts every algorithm that Select would consider for p, also those that it need not make,
// and returns those that are expected to take at most within times as long as the best, the fastest first.
func Rivals(p *Problem, chunk int64, advice Advice, within float64) ([]Candidate, error) {
	if p.Snapshot == nil {
		return nil, ErrNoRates
	}
	s, err := newSelector(p, chunk, advice)
	if err != nil {
		return nil, err
	}
	s.patient = true
	s.tryAll()
	rivals := slices.DeleteFunc(s.candidates, func(c Candidate) bool { return c.Forecast == 0 })
	if len(rivals) == 0 {
		return nil, s.refusal
	}
	slices.SortStableFunc(rivals, func(a, b Candidate) int { return cmp.Compare(a.Predicted(), b.Predicted()) })
	least := rivals[0].Predicted()
	return slices.DeleteFunc(rivals, func(c Candidate) bool { return c.Predicted() > least*within }), nil
}

// Forecast returns the bound of p and what the model expects of a plan for p, not corrected by any
// experience; both are 0 where the rates of links are not known.
func Forecast(p *Problem, made *plan.Plan, chunk int64) (plan.Bound, float64, error) {
	if p.Snapshot == nil {
		return plan.Bound{Host: -1}, 0, nil
	}
	s, err := newSelector(p, chunk, Advice{})
	if err != nil {
		return plan.Bound{}, 0, err
	}
	times, err := s.model.spans(made, chunk, math.Inf(1))
	return s.bound, makespan(times), err
}

func selectBlind(p *Problem) (*Selection, error) {
	name := "lr3"
	if p.collective() == plan.Alltoall {
		name = "aapc"
	}
	alg, err := Named(p.collective(), name)
	if err != nil {
		return nil, err
	}
	return SelectNamed(alg, p, 0, Advice{})
}
