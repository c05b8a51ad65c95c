package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A selector compares the plans of algorithms for one problem.
type selector struct {
	problem *Problem
	chunk   int64
	advice  Advice
	network *plan.Network // of the map
	model   *model        // of what is believed
	bound   plan.Bound    // by the map
	least   float64       // seconds, by what is believed: the least that a forecast can be
	patient bool          // what cannot win is forecast, too

	refusal    error
	candidates []Candidate
	close      []selected   // those that may still be taken, in order
	made       []*plan.Plan // those that were looked at
}

type selected struct {
	at        int // in candidates
	algorithm Algorithm
	predicted float64
	plan      *plan.Plan
	times     []span
}

func newSelector(p *Problem, chunk int64, advice Advice) (*selector, error) {
	network, err := p.network()
	if err != nil {
		return nil, err
	}
	bound, err := p.bound(network)
	if err != nil {
		return nil, err
	}
	own := *p
	own.memo = new(memo)
	b, err := own.believed()
	if err != nil {
		return nil, err
	}
	s := &selector{problem: &own, chunk: chunk, advice: advice, network: network, model: newModel(b.net, p.Snapshot), bound: bound, least: bound.Seconds}
	s.model.ahead = p.Ahead
	if b.raised {
		other := own
		other.bounds = nil
		least, err := other.bound(b.net)
		if err != nil {
			return nil, err
		}
		s.least = least.Seconds
	}
	return s, nil
}

// burst is how many bytes the queue of a link has room for: 64 packets, less their headers.
const burst = 64 << 10

// fitsPath reports whether what any pool has for any other is no more than what is under way on an idle path, and what a queue has room for where all of it comes at once.
func (s *selector) fitsPath() bool {
	p, net := s.problem, s.network
	pools := net.Pools()
	bytes := make([]float64, pools*pools)
	latency := make([]float64, pools*pools)
	for i := range s.model.n {
		for j := range s.model.n {
			if i == j {
				continue
			}
			size := s.model.header
			if p.collective() == plan.Alltoall {
				size += float64(p.Alltoall.Of(i, j))
			} else {
				size += float64(p.Sizes[i])
			}
			k := net.Pool[i]*pools + net.Pool[j]
			bytes[k] += size
			latency[k] = max(latency[k], s.model.latency[i*s.model.n+j])
		}
	}
	for k := range bytes {
		if k/pools != k%pools && bytes[k] > min(latency[k]*float64(net.Pipe[k]), burst) {
			return false
		}
	}
	return true
}

// hopeless reports whether a plan that takes at least so many seconds, corrected, cannot be taken any more.
func (s *selector) hopeless(atLeast float64) bool {
	return !s.patient && len(s.close) > 0 && atLeast*(1+tie) >= s.close[0].predicted
}

// slower is how many times as long as the best plan so far another may take and still be forecast to its end: experience
// may yet show it to be the faster one.
const slower = 1.5

// patience returns up to when a forecast that will be multiplied by factor is of interest, in seconds.
func (s *selector) patience(factor float64) float64 {
	if s.patient || len(s.close) == 0 {
		return math.Inf(1)
	}
	return slower * s.close[0].predicted / factor
}

// try makes and forecasts the plan of alg, and says why it is not the one, as far as that is known by now.
func (s *selector) try(alg Algorithm, c *Candidate) (why string) {
	if s.hopeless(s.least * s.model.share * c.Factor) {
		return "another is as fast as can be"
	}
	if s.advice.Report != nil {
		s.advice.Report(alg)
	}
	made, err := alg.Make(s.problem)
	if err != nil {
		return s.refused(fmt.Errorf("%s: %w", alg.Name, err), err)
	}
	if i := slices.IndexFunc(s.made, func(p *plan.Plan) bool { return samePlan(p, made) }); i >= 0 {
		return "it makes the plan of " + s.made[i].Algorithm
	}
	s.made = append(s.made, made)
	load, err := s.model.load(made)
	if err != nil {
		return s.refused(fmt.Errorf("%s: %w", alg.Name, err), err)
	}
	if s.hopeless(load * c.Factor) {
		return fmt.Sprintf("its bytes alone take %s", seconds(load*c.Factor))
	}
	until := s.patience(c.Factor)
	times, err := s.model.spans(made, s.chunk, until)
	if errors.Is(err, errLate) {
		return fmt.Sprintf("it takes more than %s", seconds(until*c.Factor))
	}
	if err != nil {
		return s.refused(fmt.Errorf("%s: %w", alg.Name, err), err)
	}
	if c.Forecast = makespan(times); s.problem.collective() == plan.Allgather && s.comesBack(made) {
		c.Forecast *= chained
	}
	s.close = append(s.close, selected{at: len(s.candidates), algorithm: alg, predicted: c.Predicted(), plan: made, times: times})
	least := s.close[0].predicted
	for _, k := range s.close {
		least = min(least, k.predicted)
	}
	s.close = slices.DeleteFunc(s.close, func(k selected) bool { return k.predicted > least*(1+tie) })
	return ""
}

// chained is by how much longer than its spans an allgather may take that sends over links between clusters what is there already. What one step brings over such a link another one waits for, and the
// spans serve the link in the best order. Rings, doubling and the like took 1.05 to 1.37 times as long in the geometric mean, others 0.99 to 1.06 (docs/design/planning.md).
const chained = 1.1

// comesBack reports whether a block gets from another cluster to one that has it: its own, or one that it was sent to before.
func (s *selector) comesBack(p *plan.Plan) bool {
	pools := s.network.Pools()
	there := make([]bool, len(p.Hosts)*pools) // by block and cluster
	for h := range p.Hosts {
		there[h*pools+s.network.Pool[h]] = true
	}
	for i := range p.Transfers {
		t := &p.Transfers[i]
		to := s.network.Pool[t.Dst]
		if s.network.Pool[t.Src] == to {
			continue
		}
		for _, b := range t.Blocks {
			if b.Piece > 0 {
				continue
			}
			at := b.Origin*pools + to
			if there[at] {
				return true
			}
			there[at] = true
		}
	}
	return false
}

// samePlan reports whether two plans of one problem differ in their names at most, as those of all logical rings do on one switch. What experience says of the first
// holds for the others; it would else have to be learnt of each.
func samePlan(a, b *plan.Plan) bool {
	return a.Sync == nil && b.Sync == nil && a.Cuts == nil && b.Cuts == nil && slices.EqualFunc(a.Transfers, b.Transfers, func(s, t plan.Transfer) bool {
		return s.Src == t.Src && s.Dst == t.Dst && s.Sync == t.Sync && slices.Equal(s.Blocks, t.Blocks) && slices.Equal(s.After, t.After)
	})
}

func (s *selector) refused(named, err error) string {
	if s.refusal == nil {
		s.refusal = named
	}
	return "it does not apply: " + strings.TrimSpace(err.Error())
}

// selection returns the first of those that are left.
func (s *selector) selection() (*Selection, error) {
	if len(s.close) == 0 {
		return nil, s.refusal
	}
	best := s.close[0]
	best.plan.Bound = s.bound.Seconds
	if !best.algorithm.Timed {
		times, err := s.withoutLead(best)
		if err != nil {
			return nil, err
		}
		stamp(best.plan, times)
	}
	for i := range s.candidates {
		c := &s.candidates[i]
		switch {
		case i == best.at || c.Why != "":
		case c.Predicted() <= best.predicted:
			c.Why = "no more than a tie faster than the one before it"
		default:
			c.Why = fmt.Sprintf("%.3g times as long", c.Predicted()/best.predicted)
		}
	}
	chosen := &Selection{
		Algorithm: best.algorithm, Plan: best.plan, Network: s.network, Bound: s.bound,
		Taken: s.candidates[best.at], Basis: s.problem.basis(), Candidates: s.candidates,
	}
	if b := s.problem.bounds; b != nil && b.Routing != nil {
		chosen.Direct = b.Direct
	}
	return chosen, nil
}

// makespan is when the last transfer ends.
func makespan(times []span) (last float64) {
	for _, t := range times {
		last = max(last, t.end)
	}
	return last
}

// withoutLead returns the times of a plan as if none of its synchronisations had a lead: a verifier judges
// its edges to the letter.
func (s *selector) withoutLead(k selected) ([]span, error) {
	if k.plan.Ahead() == 0 {
		return k.times, nil
	}
	s.model.late = true
	defer func() { s.model.late = false }()
	return s.model.spans(k.plan, s.chunk, math.Inf(1))
}

// stamp writes the forecast's times into a plan whose algorithm has none of its own: they give the
// order in which a host serves the transfers to one destination.
func stamp(p *plan.Plan, times []span) {
	for i, t := range times {
		p.Transfers[i].Start, p.Transfers[i].End = t.start, t.end
	}
	p.Makespan = makespan(times)
}
