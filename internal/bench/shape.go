package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Shape says what blocks have when the largest has a given size. "" is Even.
type Shape string

// Even is the shape of an operation whose blocks are all alike.
const Even Shape = "even"

// small is what blocks have that are there but do not count, in bytes.
const small = 1 << 10

// shapeOf says what the block of one of n ranks has for another, most being the largest; of an allgather to is that rank itself.
type shapeOf struct {
	name  Shape
	text  string
	bytes func(most int64, n, from, to int) int64
}

var shapes = map[plan.Collective][]shapeOf{
	plan.Allgather: {
		{Even, "all alike", func(most int64, n, from, to int) int64 { return most }},
		{"first", "rank 0 has it, the others 1 KiB", func(most int64, n, from, to int) int64 { return pick(from == 0, most, small) }},
		{"third", "every third rank has it, the others nothing", func(most int64, n, from, to int) int64 { return pick(from%3 == 0, most, 0) }},
		{"harmonic", "rank i has 1/(i+1) of it", func(most int64, n, from, to int) int64 { return most / int64(from+1) }},
	},
	plan.Alltoall: {
		{Even, "all alike", func(most int64, n, from, to int) int64 { return most }},
		{"first", "rank 0 sends it to each, the others 100 bytes", func(most int64, n, from, to int) int64 { return pick(from == 0, most, 100) }},
		{"pair", "rank 0 sends it to the last rank, all others 1 KiB to each", func(most int64, n, from, to int) int64 { return pick(from == 0 && to == n-1, most, small) }},
		{"square", "each rank sends it to one, and 1/2, 1/5, 1/10, … of it to others", func(most int64, n, from, to int) int64 {
			k := int64(square(n, from, to))
			return most / (1 + k*k)
		}},
	},
}

// square returns which place, from 0, to has among those that from sends to, the largest block first, of n ranks. No two ranks have one place with from, nor has to one
// place with two of them; with itself each has the last. From place to place it is not the next rank, so that large blocks leave sites.
func square(n, from, to int) int {
	step := max(2, 3*n/8)
	for gcd(step, n) != 1 {
		step++
	}
	return ((step*(to-from)-1)%n + n) % n
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// pick never returns more than large, which is the largest size.
func pick(first bool, large, other int64) int64 {
	if first {
		return large
	}
	return min(large, other)
}

// ShapesOf returns the names of the shapes that a collective can have, Even first, and for people what they are.
func ShapesOf(c plan.Collective) (names, texts []string) {
	for _, s := range shapes[c] {
		names, texts = append(names, string(s.name)), append(texts, fmt.Sprintf("%s: %s", s.name, s.text))
	}
	return names, texts
}

// Check returns an error if c has no such shape.
func (s Shape) Check(c plan.Collective) error {
	if _, ok := s.of(c); !ok {
		names, _ := ShapesOf(c)
		return fmt.Errorf("no shape %q of an %s: want %s", string(s), c, strings.Join(names, ", "))
	}
	return nil
}

func (s Shape) of(c plan.Collective) (shapeOf, bool) {
	if s == "" {
		s = Even
	}
	i := slices.IndexFunc(shapes[c], func(x shapeOf) bool { return x.name == s })
	if i < 0 {
		return shapeOf{}, false
	}
	return shapes[c][i], true
}

// Even reports whether all blocks are alike.
func (s Shape) Even() bool { return s == "" || s == Even }

// Blocks returns the bytes of the blocks of an allgather of n ranks, the largest having most. s must be one of its shapes.
func (s Shape) Blocks(most int64, n int) []int64 {
	x, _ := s.of(plan.Allgather)
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = x.bytes(most, n, i, i)
	}
	return sizes
}

// Matrix returns the bytes of the blocks of an alltoall of n ranks, one row for each source. s must be one of its shapes.
func (s Shape) Matrix(most int64, n int) [][]int64 {
	x, _ := s.of(plan.Alltoall)
	rows := make([][]int64, n)
	for from := range rows {
		rows[from] = make([]int64, n)
		for to := range n {
			rows[from][to] = x.bytes(most, n, from, to)
		}
	}
	return rows
}
