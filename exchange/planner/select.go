package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
)

// tie is the relative difference up to which two forecasts are equal. Links are shared
// ideally in them, so that the crowds of an unordered exchange cost nothing; a schedule that
// avoids them must not lose to them by a latency.
const tie = 0.02

// Advice is what experience adds to the choice. The zero value has none.
type Advice struct {
	// Factor is by how much the operations of an algorithm have taken longer than their forecast, for
	// problems like this one; 1 where nothing is known. Nil means 1 for all.
	Factor func(algorithm string) float64
	// Report, if not nil, is told which algorithm is at work.
	Report func(Algorithm)
}

func (a *Advice) factor(name string) float64 {
	if a.Factor == nil {
		return 1
	}
	if f := a.Factor(name); f > 0 {
		return f
	}
	return 1
}

// A Candidate is one algorithm that [Select] has looked at.
type Candidate struct {
	Algorithm string `json:"algorithm"`
	// Forecast is the model's time in seconds, 0 where there is none; Factor is that of [Advice].
	Forecast float64 `json:"forecast_s"`
	Factor   float64 `json:"factor"`
	// Why says why it was not taken; empty for the one that was.
	Why string `json:"why,omitempty"`
}

// Predicted is what decides: the forecast, corrected; 0 where there is none.
func (c *Candidate) Predicted() float64 { return c.Forecast * c.Factor }

// A Selection is the plan to be run, and how it was found.
type Selection struct {
	Algorithm Algorithm
	Plan      *plan.Plan    // with its bound and times
	Network   *plan.Network // nil where the rates of links are not known; then Bound and Forecast are 0
	Bound     plan.Bound
	Taken     Candidate // that of Algorithm
	// Candidates are all algorithms of the collective, in the order of [Algorithms].
	Candidates []Candidate
}

// Reason says in a sentence why this plan.
func (s *Selection) Reason() string {
	tried := 0
	second := -1
	for i, c := range s.Candidates {
		if c.Forecast == 0 {
			continue
		}
		tried++
		if c.Algorithm != s.Taken.Algorithm && (second < 0 || c.Predicted() < s.Candidates[second].Predicted()) {
			second = i
		}
	}
	switch {
	case s.Network == nil:
		return "rates of links are not known: optimal on any switch tree of equal links"
	case second < 0 || tried < 2:
		return fmt.Sprintf("expected %s; %d of %d forecast", seconds(s.Taken.Predicted()), tried, len(s.Candidates))
	}
	next := &s.Candidates[second]
	return fmt.Sprintf("expected %s, next %s with %s; %d of %d forecast", seconds(s.Taken.Predicted()), next.Algorithm, seconds(next.Predicted()), tried, len(s.Candidates))
}

// seconds writes a time for people, with three digits.
func seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}

// Select takes the algorithm for p with the least predicted time: its forecast, times the
// factor that advice has for it. Ties, of up to 2 %, go to the first in the order of [Algorithms].
// chunk is that of [Schedule].
//
// On one switch tree they are none either, for more bytes than the ports of switches hold ([phase.Crowds]), and
// where cables join its switches, nothing is but aapc then: all hosts of a switch would send over one cable.
//
// It makes no plan that cannot win: none of an algorithm once a plan is as good as the bound, and it
// forecasts none whose bytes alone take too long on some port or link. Between clusters,
// algorithms that crowd ([Algorithm.Crowds]) are no candidates for more bytes than the path
// itself holds: 64 flows at once over a link of 1.25 Mbit/s lost thousands of packets, and hosts were
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
	trunks := false // that would be crowded by whatever does not know of them
	if t, err := s.problem.switches(); err == nil && s.problem.collective() == plan.Alltoall {
		crowded = phase.Crowds(t, s.problem.Alltoall)
		trunks = crowded && len(s.network.Trunks) > 0
	}
	for _, alg := range Algorithms(s.problem.collective()) {
		c := Candidate{Algorithm: alg.Name, Factor: s.advice.factor(alg.Name)}
		switch {
		case alg.Crowds && crowded, trunks && alg.Name != aapcName:
			c.Why = "it crowds the links"
		case alg.Across && one:
			c.Why = "it is for links between pools"
		default:
			c.Why = s.try(alg, &c)
		}
		s.candidates = append(s.candidates, c)
	}
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
	times, err := s.model.spans(made, chunk)
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

// A selector compares the plans of algorithms for one problem.
type selector struct {
	problem *Problem
	chunk   int64
	advice  Advice
	network *plan.Network
	model   *model
	bound   plan.Bound
	patient bool // what cannot win is forecast, too

	refusal    error
	candidates []Candidate
	close      []selected // those that may still be taken, in order
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
	return &selector{problem: &own, chunk: chunk, advice: advice, network: network, model: newModel(network, p.Snapshot), bound: bound}, nil
}

// fitsPath reports whether what any pool has for any other is no more than what is under way on an idle path.
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
		if k/pools != k%pools && bytes[k] > latency[k]*float64(net.Pipe[k]) {
			return false
		}
	}
	return true
}

// hopeless reports whether a plan that takes at least so many seconds, corrected, cannot be taken any more.
func (s *selector) hopeless(atLeast float64) bool {
	return !s.patient && len(s.close) > 0 && atLeast*(1+tie) >= s.close[0].predicted
}

// try makes and forecasts the plan of alg, and says why it is not the one, as far as that is known by now.
func (s *selector) try(alg Algorithm, c *Candidate) (why string) {
	if s.hopeless(s.bound.Seconds * c.Factor) {
		return "another is as fast as can be"
	}
	if s.advice.Report != nil {
		s.advice.Report(alg)
	}
	made, err := alg.Make(s.problem)
	if err != nil {
		return s.refused(fmt.Errorf("%s: %w", alg.Name, err), err)
	}
	load, err := s.model.load(made)
	if err != nil {
		return s.refused(fmt.Errorf("%s: %w", alg.Name, err), err)
	}
	if s.hopeless(load * c.Factor) {
		return fmt.Sprintf("its bytes alone take %s", seconds(load*c.Factor))
	}
	times, err := s.model.spans(made, s.chunk)
	if err != nil {
		return s.refused(fmt.Errorf("%s: %w", alg.Name, err), err)
	}
	c.Forecast = makespan(times)
	s.close = append(s.close, selected{at: len(s.candidates), algorithm: alg, predicted: c.Predicted(), plan: made, times: times})
	least := s.close[0].predicted
	for _, k := range s.close {
		least = min(least, k.predicted)
	}
	s.close = slices.DeleteFunc(s.close, func(k selected) bool { return k.predicted > least*(1+tie) })
	return ""
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
	return &Selection{
		Algorithm: best.algorithm, Plan: best.plan, Network: s.network, Bound: s.bound,
		Taken: s.candidates[best.at], Candidates: s.candidates,
	}, nil
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
	return s.model.spans(k.plan, s.chunk)
}

// stamp writes the forecast's times into a plan whose algorithm has none of its own: they give the
// order in which a host serves the transfers to one destination.
func stamp(p *plan.Plan, times []span) {
	for i, t := range times {
		p.Transfers[i].Start, p.Transfers[i].End = t.start, t.end
	}
	p.Makespan = makespan(times)
}
