package plan

import (
	"cmp"
	"math"
	"slices"
)

// fairShare divides capacities among the flows that are active: max-min fairness by
// progressive filling (Bertsekas & Gallager, Data Networks, §6.5.2). All flows grow
// alike until a resource is full or a flow meets its ceiling; these stand still, the
// others go on. A division costs O(F + rounds × resources) for F flows.
type fairShare struct {
	capacity  []float64 // per resource
	byCeiling []*flow   // all flows, the lowest ceiling first

	left  []float64 // per resource: capacity not yet given away
	users []int     // per resource: flows that still grow
	on    [][]*flow // per resource: flows of this division
	used  []int     // resources with a growing flow on them
	full  []int     // the bottlenecks of a round
}

// growing marks a flow whose share is not yet fixed; shares are positive.
const growing = -1

func newFairShare(capacity []float64, flows []*flow) *fairShare {
	n := len(capacity)
	s := &fairShare{capacity: capacity, byCeiling: slices.Clone(flows), left: make([]float64, n), users: make([]int, n), on: make([][]*flow, n)}
	slices.SortStableFunc(s.byCeiling, func(a, b *flow) int { return cmp.Compare(a.ceiling, b.ceiling) })
	return s
}

// divide sets the share of every active flow, which must be among those of newFairShare.
func (s *fairShare) divide(active []*flow) {
	s.used = s.used[:0]
	for _, f := range active {
		f.share = growing
		for _, r := range f.resources {
			if s.users[r] == 0 {
				s.used = append(s.used, r)
				s.left[r], s.on[r] = s.capacity[r], s.on[r][:0]
			}
			s.users[r]++
			s.on[r] = append(s.on[r], f)
		}
	}
	rest, ceilings := len(active), s.byCeiling
	for rest > 0 {
		level := s.level()
		fixed := 0
		for len(ceilings) > 0 && (ceilings[0].share != growing || ceilings[0].ceiling <= level) {
			if f := ceilings[0]; f.share == growing {
				s.fix(f, f.ceiling)
				fixed++
			}
			ceilings = ceilings[1:]
		}
		if fixed == 0 {
			fixed = s.fill(level)
		}
		rest -= fixed
	}
}

// level returns the rate at which the next resource is full.
func (s *fairShare) level() float64 {
	level, keep := math.Inf(1), s.used[:0]
	for _, r := range s.used {
		if s.users[r] > 0 {
			keep = append(keep, r)
			level = min(level, s.left[r]/float64(s.users[r]))
		}
	}
	s.used = keep
	return level
}

// fill fixes the flows on every resource that is full at level, and returns how many.
func (s *fairShare) fill(level float64) (fixed int) {
	s.full = s.full[:0]
	for _, r := range s.used {
		// Resources that fill at the same level do so up to rounding.
		if s.left[r]/float64(s.users[r]) <= level*(1+1e-12) {
			s.full = append(s.full, r)
		}
	}
	for _, r := range s.full {
		for _, f := range s.on[r] {
			if f.share == growing {
				s.fix(f, level)
				fixed++
			}
		}
	}
	return fixed
}

func (s *fairShare) fix(f *flow, rate float64) {
	f.share = rate
	for _, r := range f.resources {
		s.left[r] = max(0, s.left[r]-rate)
		s.users[r]--
	}
}
