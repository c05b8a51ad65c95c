package plan

import "slices"

// A Table has a number for blocks, or pieces of them, at hosts: which transfer brings one there, say. It
// is made for one plan, and again for another in the same memory. The zero value is of no plan.
type Table struct {
	hosts, pieces int
	alltoall      bool
	dense         []int32 // 1 + the number, 0 for none; nil where it would be mostly empty
	sparse        map[uint64]int32
}

// sparseFrom is how many places for each entry are too many. A place takes 4 bytes, an entry of a map some 20 and ten
// times as long.
const sparseFrom = 128

// Reset empties t, and makes it one for the blocks of p at its hosts, of which about so many will be set. p's
// transfers need not be valid.
func (t *Table) Reset(p *Plan, entries int) {
	t.hosts, t.pieces, t.alltoall, t.sparse = len(p.Hosts), 1, p.Collective == Alltoall, nil
	for i := range p.Cuts {
		t.pieces = max(t.pieces, len(p.Cuts[i].At)+1)
	}
	places := t.hosts * t.hosts
	if t.alltoall {
		places *= t.hosts
	}
	if limit := sparseFrom * max(entries, 1); places > limit || places*t.pieces > limit {
		t.dense, t.sparse = nil, make(map[uint64]int32, entries)
		return
	}
	places *= t.pieces
	t.dense = slices.Grow(t.dense[:0], places)[:places]
	clear(t.dense)
}

// Set notes a number from 0 to 2³¹−2 for b at host. Both are in range, which [Plan.Check] proves.
func (t *Table) Set(host int, b Block, number int) {
	if t.sparse != nil {
		t.sparse[holdKey(b, host)] = int32(number) + 1
		return
	}
	t.dense[t.place(host, b)] = int32(number) + 1
}

// At returns the number for b at host, and whether there is one. Both are in range.
func (t *Table) At(host int, b Block) (number int, ok bool) {
	var k int32
	if t.sparse != nil {
		k = t.sparse[holdKey(b, host)]
	} else {
		k = t.dense[t.place(host, b)]
	}
	return int(k) - 1, k > 0
}

func (t *Table) place(host int, b Block) int {
	at := host*t.hosts + b.Origin
	if t.alltoall {
		at = at*t.hosts + b.Dest
	}
	return at*t.pieces + b.Piece
}
