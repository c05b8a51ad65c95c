package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// A Cut says where one block is cut into pieces. A whole block is the least that most algorithms
// move, but whole blocks cannot balance links: one may take a link a sixth of the time in which all must be through.
//
// Piece i is [At[i-1], At[i]) of the block, the first begins at 0 and the last ends where the block does.
type Cut struct {
	Origin int     `json:"origin"`
	Dest   int     `json:"dest"` // [All] in an allgather
	At     []int64 `json:"at"`   // bytes from the start of the block, ascending, inside it
}

func (c *Cut) compare(b Block) int {
	return cmp.Or(cmp.Compare(c.Origin, b.Origin), cmp.Compare(c.Dest, b.Dest))
}

// String returns "{origin dest}", and of a later piece than the first "{origin dest piece}".
func (b Block) String() string {
	if b.Piece > 0 {
		return fmt.Sprintf("{%d %d %d}", b.Origin, b.Dest, b.Piece)
	}
	return fmt.Sprintf("{%d %d}", b.Origin, b.Dest)
}

// cutsOf returns where the block of which b is a piece is cut.
func (p *Plan) cutsOf(b Block) []int64 {
	if len(p.Cuts) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(p.Cuts, b, func(c Cut, b Block) int { return c.compare(b) })
	if !ok {
		return nil
	}
	return p.Cuts[i].At
}

// Pieces returns how many pieces the block of which b is a piece has: 1 where it is not cut.
func (p *Plan) Pieces(b Block) int { return len(p.cutsOf(b)) + 1 }

// Whole returns the bytes of the block of which b is a piece.
func (p *Plan) Whole(b Block) int64 {
	switch {
	case p.Matrix != nil:
		return p.Matrix[b.Origin][b.Dest]
	case p.Sizes != nil:
		return p.Sizes[b.Origin]
	}
	return p.MessageBytes
}

// Span returns where b begins and ends in its block, in bytes: all of it where it is not cut.
func (p *Plan) Span(b Block) (from, to int64) {
	at := p.cutsOf(b)
	to = p.Whole(b)
	if b.Piece > 0 {
		from = at[b.Piece-1]
	}
	if b.Piece < len(at) {
		to = at[b.Piece]
	}
	return from, to
}

// Size returns the bytes of b: of a piece, where the block is cut.
func (p *Plan) Size(b Block) int64 {
	if len(p.Cuts) == 0 {
		return p.Whole(b)
	}
	from, to := p.Span(b)
	return to - from
}

// checkCuts checks p.Cuts against hosts and sizes, which must be right.
func (p *Plan) checkCuts() error {
	n := len(p.Hosts)
	for i := range p.Cuts {
		c := &p.Cuts[i]
		b := Block{Origin: c.Origin, Dest: c.Dest}
		switch {
		case c.Origin < 0 || c.Origin >= n:
			return flawed("cuts", i, "origin %d is none of the %d hosts", c.Origin, n)
		case p.Collective == Allgather && c.Dest != All:
			return flawed("cuts", i, "dest %d, want -1 in an allgather", c.Dest)
		case p.Collective == Alltoall && (c.Dest < 0 || c.Dest >= n):
			return flawed("cuts", i, "dest %d is none of the %d hosts", c.Dest, n)
		case i > 0 && p.Cuts[i-1].compare(b) >= 0:
			return flawed("cuts", i, "the block %s does not come after the one before it: sort by origin and dest", p.name(b))
		case len(c.At) == 0 || len(c.At) >= maxPieces:
			return flawed("cuts", i, "%d pieces, want 2…%d", len(c.At)+1, maxPieces)
		}
		last := int64(0)
		for _, at := range c.At {
			if at <= last || at >= p.Whole(b) {
				return flawed("cuts", i, "at %d: want bytes that rise, inside a block of %d", at, p.Whole(b))
			}
			last = at
		}
	}
	return nil
}

// checkBlock reports what is wrong with block b of a transfer. Hosts, sizes and cuts must be right.
func (p *Plan) checkBlock(b Block) error {
	n := len(p.Hosts)
	switch {
	case b.Origin < 0 || b.Origin >= n:
		return fmt.Errorf("origin %d is none of the %d hosts", b.Origin, n)
	case p.Collective == Allgather && b.Dest != All:
		return fmt.Errorf("dest %d, want -1 in an allgather", b.Dest)
	case p.Collective == Alltoall && (b.Dest < 0 || b.Dest >= n):
		return fmt.Errorf("dest %d is none of the %d hosts", b.Dest, n)
	case b.Piece < 0 || b.Piece >= p.Pieces(b):
		return fmt.Errorf("piece %d of the block %s, which has %d", b.Piece, p.name(Block{Origin: b.Origin, Dest: b.Dest}), p.Pieces(b))
	}
	return nil
}
