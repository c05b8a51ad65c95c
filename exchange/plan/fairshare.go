package plan

import (
	"cmp"
	"math"
	"slices"
)

// fairShare divides capacities among the flows that are active: max-min fairness by
// progressive filling (Bertsekas & Gallager, Data Networks, §6.5.2). All flows grow
// alike until a resource is full or a flow meets its ceiling; these stand still, the
// others go on. A division costs O(F log F + rounds × resources) for F flows.
//
// Shares depend only on the flows that are connected over shared resources, so that a flow that
// begins or ends changes no others ([fairShare.touched]).
type fairShare struct {
	capacity  []float64 // per resource
	byCeiling []*flow   // all flows, the lowest ceiling first
	active    [][]*flow // per resource: the active flows on it

	left  []float64 // per resource: capacity not yet given away
	users []int     // per resource: flows that still grow
	used  []int     // resources with a growing flow on them
	full  []int     // the bottlenecks of a round

	visit   int   // number of the latest search
	visited []int // per resource: the latest search that came by
	found   []*flow
	open    []int // resources of the search
}

// growing marks a flow whose share is not yet fixed; shares are positive.
const growing = -1

func newFairShare(capacity []float64, flows []*flow) *fairShare {
	n := len(capacity)
	byCeiling := slices.Clone(flows)
	slices.SortStableFunc(byCeiling, func(a, b *flow) int { return cmp.Compare(a.ceiling, b.ceiling) })
	for i, f := range byCeiling {
		f.rank = i
	}
	return &fairShare{capacity: capacity, byCeiling: byCeiling, active: make([][]*flow, n), left: make([]float64, n), users: make([]int, n), visited: make([]int, n)}
}

// add makes f active.
func (s *fairShare) add(f *flow) {
	f.at = f.at[:0]
	for _, r := range f.resources {
		f.at = append(f.at, len(s.active[r]))
		s.active[r] = append(s.active[r], f)
	}
}

// remove ends that.
func (s *fairShare) remove(f *flow) {
	for k, r := range f.resources {
		on := s.active[r]
		last := on[len(on)-1]
		on[f.at[k]] = last
		last.at[slices.Index(last.resources, r)] = f.at[k]
		s.active[r] = on[:len(on)-1]
	}
}

// touched returns the active flows whose shares can change when those of struck have begun
// or ended: what is connected to them over shared resources. The slice is valid until the next call.
func (s *fairShare) touched(struck []*flow) []*flow {
	s.visit++
	s.found, s.open = s.found[:0], s.open[:0]
	reach := func(f *flow) {
		for _, r := range f.resources {
			if s.visited[r] != s.visit {
				s.visited[r] = s.visit
				s.open = append(s.open, r)
			}
		}
	}
	for _, f := range struck {
		reach(f)
	}
	for k := 0; k < len(s.open); k++ {
		for _, f := range s.active[s.open[k]] {
			if f.visited != s.visit {
				f.visited = s.visit
				s.found = append(s.found, f)
				reach(f)
			}
		}
	}
	return s.found
}

// divide sets the share of every one of flows, which are active, and all that are on their
// resources. It may sort them.
func (s *fairShare) divide(flows []*flow) {
	s.used = s.used[:0]
	for _, f := range flows {
		f.share = growing
		for _, r := range f.resources {
			if s.users[r] == 0 {
				s.used = append(s.used, r)
				s.left[r] = s.capacity[r]
			}
			s.users[r]++
		}
	}
	rest, ceilings := len(flows), s.byCeiling
	if len(flows) < len(s.byCeiling)/16 { // else it is quicker to pass over the others than to sort
		slices.SortFunc(flows, func(a, b *flow) int { return cmp.Compare(a.rank, b.rank) })
		ceilings = flows
	}
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
		for _, f := range s.active[r] {
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
