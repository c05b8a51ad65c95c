package gantt

import (
	"cmp"
	"slices"
)

// A Span is the time of one transfer in seconds: from its first byte sent to its last
// byte arrived.
type Span struct{ Start, End float64 }

// A Step is a moment in seconds, and how many transfers are under way from then on.
type Step struct {
	At    float64 `json:"at_s"`
	Count int     `json:"transfers"`
}

// A LinkLoad is what one WAN link carries over time.
type LinkLoad struct {
	From  int    `json:"from"` // pools, indices in Chart.PoolNames
	To    int    `json:"to"`
	Bytes int64  `json:"bytes"`
	Steps []Step `json:"steps"`
}

// WAN returns the number of simultaneous transfers between pools over time: of all
// together, and of every ordered pair of pools that has transfers, ascending by From and
// To. It returns the errors of [WriteSVG]. Source: Gupta & Vadhiyar, HPDC 2007, Figure 9.
func (c Chart) WAN() (total []Step, links []LinkLoad, err error) {
	f, err := newFigure(c)
	if err != nil {
		return nil, nil, err
	}
	for i := range f.links {
		l := &f.links[i]
		links = append(links, LinkLoad{From: l.from, To: l.to, Bytes: l.bytes, Steps: Concurrency(f.spansOf(l.transfers))})
	}
	return Concurrency(f.spansOf(f.wanTransfers())), links, nil
}

// tolerance is by how many seconds times may be off, as in plan.Rules: where one
// transfer starts at the end of another, rounding must not show two at a time.
const tolerance = 5e-9

// Concurrency returns how many of spans overlap over time, as steps at ascending times.
// It is empty where no span has a length, and ends with a step to 0 else. An overlap or
// a gap of up to 5 ns is taken for rounding; spans up to that length do not count.
func Concurrency(spans []Span) []Step {
	type event struct {
		key, at float64
		change  int
	}
	events := make([]event, 0, 2*len(spans))
	for _, s := range spans {
		if s.End-s.Start > tolerance {
			events = append(events, event{s.Start, s.Start, 1}, event{s.End - tolerance, s.End, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.change, b.change))
	})
	var steps []Step
	running := 0
	for _, e := range events {
		running += e.change
		last := len(steps) - 1
		if last >= 0 && e.at-steps[last].At <= tolerance {
			steps[last].Count = running
		} else {
			steps = append(steps, Step{e.at, running})
		}
	}
	return slices.CompactFunc(steps, func(a, b Step) bool { return a.Count == b.Count })
}

// peak returns the largest count of steps.
func peak(steps []Step) int {
	most := 0
	for _, s := range steps {
		most = max(most, s.Count)
	}
	return most
}

// busy returns the seconds in which at least one transfer is under way.
func busy(steps []Step) float64 {
	var sum float64
	for i := 1; i < len(steps); i++ {
		if steps[i-1].Count > 0 {
			sum += steps[i].At - steps[i-1].At
		}
	}
	return sum
}

func (f *figure) spansOf(transfers []int) []Span {
	spans := make([]Span, 0, len(transfers))
	for _, i := range transfers {
		spans = append(spans, f.spans[i])
	}
	return spans
}

func (f *figure) wanTransfers() []int {
	var all []int
	for _, l := range f.links {
		all = append(all, l.transfers...)
	}
	slices.Sort(all)
	return all
}

func sortLinks(links []wanLink) {
	slices.SortFunc(links, func(a, b wanLink) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
}
