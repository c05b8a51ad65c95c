package plan

import "math"

// A simplex is the state of the revised simplex method on min c·x, A·x = b, x ≥ 0, with
// columns that are made when they are needed (Dantzig & Wolfe, Operations Research 8, 1960).
// The inverse of the basis is kept whole: there are a few hundred rows at most.
type simplex struct {
	m       int
	inverse []float64 // m×m, [row*m+column]
	x       []float64 // per row: the value of its basic variable
	duals   []float64 // per row of A
	basis   []int     // per row: the number of its basic variable in columns, -1 at first
	columns []column
}

// A column is a variable: its cost and its coefficients, of which most are 0.
type column struct {
	cost   float64
	rows   []int
	values []float64
}

// pivotTolerance is the least coefficient that a pivot may divide by; rows and columns are
// scaled to about 1.
const pivotTolerance = 1e-9

// newSimplex begins with a basis of unit columns that cost nothing and have no number.
func newSimplex(b []float64) *simplex {
	m := len(b)
	s := &simplex{m: m, inverse: make([]float64, m*m), x: b, duals: make([]float64, m), basis: make([]int, m)}
	for i := range m {
		s.inverse[i*m+i] = 1
		s.basis[i] = -1
	}
	return s
}

// add returns the number of a new variable, which is 0 until it enters.
func (s *simplex) add(c column) int {
	s.columns = append(s.columns, c)
	return len(s.columns) - 1
}

// reduced returns the reduced cost of c: what the objective gains for each unit of it.
func (s *simplex) reduced(c *column) float64 {
	r := c.cost
	for k, i := range c.rows {
		r -= s.duals[i] * c.values[k]
	}
	return r
}

// direction returns how the basic variables fall with each unit of c.
func (s *simplex) direction(c *column, d []float64) []float64 {
	for i := range s.m {
		row := s.inverse[i*s.m : (i+1)*s.m]
		sum := 0.0
		for k, r := range c.rows {
			sum += row[r] * c.values[k]
		}
		d[i] = sum
	}
	return d
}

// leaving returns the row whose variable is the first to reach 0 along d, the one with the
// largest coefficient among equals, or -1.
func (s *simplex) leaving(d []float64) int {
	best, least := -1, math.Inf(1)
	for i, step := range d {
		if step <= pivotTolerance {
			continue
		}
		ratio := max(s.x[i], 0) / step
		if ratio < least-1e-15 || ratio <= least+1e-15 && best >= 0 && step > d[best] {
			best, least = i, ratio
		}
	}
	return best
}

// pivot makes variable v, along d, the basic one of row r.
func (s *simplex) pivot(v, r int, d []float64) {
	gain := s.reduced(&s.columns[v])
	row := s.inverse[r*s.m : (r+1)*s.m]
	scale := 1 / d[r]
	var used []int // columns in which row is not 0: few at first
	for k := range row {
		if row[k] != 0 {
			row[k] *= scale
			s.duals[k] += gain * row[k]
			used = append(used, k)
		}
	}
	s.x[r] *= scale
	for i := range s.m {
		if i == r || d[i] == 0 {
			continue
		}
		other := s.inverse[i*s.m : (i+1)*s.m]
		for _, k := range used {
			other[k] -= d[i] * row[k]
		}
		s.x[i] -= d[i] * s.x[r]
	}
	s.basis[r] = v
}
