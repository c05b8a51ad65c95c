package planner

// Auto is the name under which users ask for the best algorithm ([Select]). It is no [Algorithm].
const Auto = "auto"

// A Choice is what [Select] took, simulated.
type Choice struct {
	Algorithm Algorithm
	*Scheduled
	Selection *Selection
}

// Choose is [Select], with the plan that was taken bounded and simulated as [Schedule] does it: for
// those who want more than a forecast, and have the time. chunk is that of [Schedule]. report, if
// not nil, is told which algorithm is at work.
func Choose(p *Problem, chunk int64, report func(Algorithm)) (*Choice, error) {
	sel, err := Select(p, chunk, Advice{Report: report})
	if err != nil {
		return nil, err
	}
	s, err := Assess(sel.Algorithm, p, sel.Plan, chunk)
	if err != nil {
		return nil, err
	}
	return &Choice{Algorithm: sel.Algorithm, Scheduled: s, Selection: sel}, nil
}
