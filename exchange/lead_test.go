package exchange

import "testing"

// TestLeading: what waits for a transfer is let go in the middle of a chunk, when no more than the lead is
// missing of all that has still to come, and once.
func TestLeading(t *testing.T) {
	for _, tc := range []struct {
		name               string
		missing, lead      int64
		size, step, expect int // expect is at how many bytes of the chunk; -1: not in this chunk
	}{
		{"the last chunk", 1000, 100, 1000, 10, 900},
		{"reads that pass the place", 1000, 100, 1000, 64, 960},
		{"another chunk is missing", 1500, 100, 1000, 10, -1},
		{"a lead longer than the chunk", 1500, 800, 1000, 10, 700},
		{"a lead longer than all", 1000, 5000, 1000, 10, 10},
		{"a second copy", 50, 100, 1000, 10, -1},
	} {
		x := &run{part: &Part{Lead: tc.lead, Chunk: tc.size}}
		r := &recv{Recv: &Recv{ID: 3}, missing: tc.missing}
		b := &block{Block: Block{Size: int64(tc.size)}, recv: r, have: newBitmap(2)}
		if tc.missing < int64(tc.size) {
			b.have.set(0)
		}
		passed := 0
		part := x.leading(b, 0, func(int) error { passed++; return nil })
		at := -1
		for n := tc.step; n < tc.size; n += tc.step {
			if err := part(n); err != nil {
				t.Fatal(err)
			}
			if r.told && at < 0 {
				at = n
			}
		}
		if at != tc.expect || passed != (tc.size-1)/tc.step {
			t.Errorf("%s: told at %d bytes, want %d; %d reads passed on", tc.name, at, tc.expect, passed)
		}
	}
}
