package planner

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

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
	Direct    plan.Bound // of an alltoall across pools: without relays, see [Scheduled.Direct]; else of 0 s
	Taken     Candidate  // that of Algorithm
	Basis     *Basis     // what of the map the plan stands on; nil where the rates of links are not known
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
