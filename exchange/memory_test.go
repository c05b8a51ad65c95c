package exchange

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestBuffers addresses several buffers, empty ones among them, as one.
func TestBuffers(t *testing.T) {
	whole := []byte("abcdefghij")
	bufs := newBuffers(nil, whole[:3], whole[3:3], whole[3:7], nil, nil, whole[7:], nil)
	ends := []int64{0, 3, 7, 10}
	for from := int64(-1); from <= 11; from++ {
		for n := int64(-1); n <= 11; n++ {
			got, ok := bufs.piece(Segment{from, n})
			want := false
			for i := range ends[1:] {
				want = want || n >= 0 && from >= ends[i] && from+n <= ends[i+1]
			}
			if ok != want || ok && !bytes.Equal(got, whole[from:from+n]) {
				t.Errorf("%d bytes at %d: %q, %v, want %v", n, from, got, ok, want)
			}
		}
	}
	none := newBuffers()
	if _, ok := none.piece(Segment{}); ok {
		t.Error("no buffers hold something")
	}
	// What lies outside must not be reached by growing a piece either.
	if piece, _ := bufs.piece(Segment{0, 2}); cap(piece) != 2 {
		t.Errorf("a piece of 2 bytes can grow to %d", cap(piece))
	}
}

// TestSegmentsOfPieces: a piece lies where its share of the block does, whatever segments the block has.
func TestSegmentsOfPieces(t *testing.T) {
	d := Data{Layout: func(b Block) []Segment {
		if b.Piece != 0 || b.Offset != 0 || b.Size != 0 {
			t.Errorf("asked for %+v, want the whole block", b)
		}
		return []Segment{{100, 10}, {200, 0}, {50, 5}, {300, 20}}
	}}
	for _, tc := range []struct {
		offset, size int64
		want         []Segment
	}{
		{0, 10, []Segment{{100, 10}}},
		{3, 4, []Segment{{103, 4}}},
		{9, 7, []Segment{{109, 1}, {50, 5}, {300, 1}}},
		{15, 20, []Segment{{300, 20}}},
		{35, 0, nil},
		{30, 6, nil}, // beyond the end
		{40, 1, nil},
	} {
		got, err := d.segments(Block{Block: plan.Block{Piece: 1}, Cut: true, Offset: tc.offset, Size: tc.size})
		if !slices.Equal(got, tc.want) || (err != nil) != (tc.offset+tc.size > 35) {
			t.Errorf("%d bytes at %d: got %v, %v, want %v", tc.size, tc.offset, got, err, tc.want)
		}
	}
}

// TestSplitWithoutEmptyBlocks: a plan may leave out blocks of no bytes, and no others.
func TestSplitWithoutEmptyBlocks(t *testing.T) {
	p := newPlanner(plan.Alltoall, 3)
	p.add(0, 1, plan.Block{Origin: 0, Dest: 1})
	p.p.Matrix = [][]int64{{9, 5, 0}, {0, 9, 0}, {0, 0, 9}}
	parts, err := Split(p.p, ID{1}, 0, nil)
	if err != nil || len(parts[0].Sends) != 1 || len(parts[2].Blocks) != 0 {
		t.Errorf("parts %+v, %v", parts, err)
	}
	p.p.Matrix[2][0] = 1
	if _, err := Split(p.p, ID{1}, 0, nil); err == nil {
		t.Error("a block of one byte was left out")
	}
}
