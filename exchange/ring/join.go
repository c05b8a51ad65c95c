package ring

import (
	"cmp"
	"slices"
)

// A piece is a part of a ring that is joined to others below one switch: a host, or the
// array of a subtree. a and b are the heights of its two ends: how many switches of
// the subtree lie between the end and that switch, 0 for a host. An array read backwards
// is an array with the same paths (every cable is full duplex), so a piece may be
// turned round; a ≤ b by convention.
type piece struct{ a, b int }

// A step is one piece in its place in a cycle.
type step struct {
	piece  int
	turned bool // read from end b to end a
}

// join puts pieces on one cycle such that the heights of any two ends that meet add up to
// slack at most: a message between them passes the switches below both and the one at
// which they are joined, slack+1 in all. It reports whether there is such a cycle. There
// are two pieces or more; n of them take O(n log n).
//
// The paper tries all sequences of the pieces. Given their ends, none of that is needed:
// pair the ends in order of height, then patch the cycles that come of it, as Gilmore and
// Gomory do for their machine (Operations Research 12, 1964). Of the 2n ends let
// p₁ ≤ p₂ ≤ … pₙ be the lower half and q₁ ≥ q₂ ≥ … qₙ the upper half from the top.
//
//   - If the ends can be paired at all, then pₖ with qₖ: the highest end may as well
//     meet the lowest, since whatever met either before can meet each other.
//     The pairs link the pieces to cycles, perhaps several.
//   - From k = 1 up, where pₖ₊₁ suits qₖ and they are on two cycles, they are made to
//     meet, which leaves qₖ₊₁ for what met qₖ, some pⱼ with j ≤ k that suits it too. The
//     two cycles are one then.
//   - Where pₖ₊₁ does not suit qₖ, the ends q₁…qₖ can meet p₁…pₖ only, whatever the
//     pairing: cycles get across that line in pieces with one end on either side, and
//     patching has brought together everything on one side. So if there are two cycles left,
//     there is no way to make them one.
func join(pieces []piece, slack int) (j *joiner, ok bool) {
	j = newJoiner(pieces)
	n := len(pieces)
	for k := range n {
		p, q := j.sorted[k], j.sorted[2*n-1-k]
		if j.height(p)+j.height(q) > slack {
			return nil, false
		}
		j.meet(p, q)
	}
	for k := range n - 1 {
		next, top := j.sorted[k+1], j.sorted[2*n-1-k]
		if j.height(next)+j.height(top) <= slack && j.find(next/2) != j.find(top/2) {
			low, nextTop := j.mate[top], j.mate[next]
			j.meet(next, top)
			j.meet(low, nextTop)
		}
	}
	return j, j.cycles == 1
}

// A joiner holds which ends meet. Ends 2i and 2i+1 are a and b of piece i.
type joiner struct {
	pieces []piece
	sorted []int // ends by height, then by number
	mate   []int // per end: the end that it meets
	group  []int // per piece: union-find; one set for each cycle
	cycles int
}

func newJoiner(pieces []piece) *joiner {
	n := len(pieces)
	ints := make([]int, 5*n)
	j := &joiner{pieces: pieces, sorted: ints[:2*n], mate: ints[2*n : 4*n], group: ints[4*n:], cycles: n}
	for i := range pieces {
		j.group[i] = i
	}
	for e := range j.sorted {
		j.sorted[e] = e
	}
	slices.SortFunc(j.sorted, func(x, y int) int {
		return cmp.Or(cmp.Compare(j.height(x), j.height(y)), cmp.Compare(x, y))
	})
	return j
}

func (j *joiner) height(end int) int {
	if end%2 == 0 {
		return j.pieces[end/2].a
	}
	return j.pieces[end/2].b
}

// meet pairs two ends, which makes one of two cycles. Where they had met others before,
// the caller pairs these two as well.
func (j *joiner) meet(x, y int) {
	j.mate[x], j.mate[y] = y, x
	if a, b := j.find(x/2), j.find(y/2); a != b {
		j.group[b] = a
		j.cycles--
	}
}

func (j *joiner) find(i int) int {
	for j.group[i] != i {
		j.group[i] = j.group[j.group[i]]
		i = j.group[i]
	}
	return i
}

// walk follows the cycle from the end that meets from to the piece that from belongs to,
// which is left out.
func (j *joiner) walk(from int) []step {
	var steps []step
	for enter := j.mate[from]; enter/2 != from/2; enter = j.mate[enter^1] {
		steps = append(steps, step{piece: enter / 2, turned: enter%2 == 1})
	}
	return steps
}
