package logp

import (
	"slices"
	"time"
)

// floor is the difference that Simplify takes for none, whatever the tolerance: no
// schedule depends on a microsecond, and no clock reads it.
const floor = time.Microsecond

// Simplify returns a model of the fewest of m's points that gives all three times at
// every point of m, and at twice the last size, within tolerance, a share of the time, or
// within a microsecond. The first and the last point stay. Beyond the last point
// the slope of a time is right within twice the tolerance.
func (m Model) Simplify(tolerance float64) Model {
	n := len(m.Points)
	if n <= minPoints {
		return m
	}
	// best[j] is the fewest points of a chain from 0 to j, from[j] the one before j in it;
	// among equals the longest last step, which is the first one found.
	best, from := make([]int, n), make([]int, n)
	for j := 1; j < n; j++ {
		best[j] = n + 1
		for i := range j {
			if best[i]+1 < best[j] && m.spans(i, j, tolerance) {
				best[j], from[j] = best[i]+1, i
			}
		}
	}
	var keep []Point
	for j := n - 1; j > 0; j = from[j] {
		keep = append(keep, m.Points[j])
	}
	keep = append(keep, m.Points[0])
	slices.Reverse(keep)
	return Model{Points: keep}
}

// spans reports whether the points between i and j lie on the line from i to j.
func (m Model) spans(i, j int, tolerance float64) bool {
	chord := Model{Points: []Point{m.Points[i], m.Points[j]}}
	for k := i + 1; k < j; k++ {
		if !alike(chord.At(m.Points[k].Size), m.Points[k], tolerance) {
			return false
		}
	}
	if j < len(m.Points)-1 {
		return true
	}
	twice := 2 * m.Points[j].Size
	return alike(chord.At(twice), m.At(twice), tolerance)
}

// alike reports whether the times of a are those of b, within tolerance.
func alike(a, b Point, tolerance float64) bool {
	for _, c := range curves {
		va, vb := *c.of(&a), *c.of(&b)
		if (va - vb).Abs() > max(time.Duration(tolerance*float64(vb)), floor) {
			return false
		}
	}
	return true
}
