package plan

import "testing"

func TestNewAlltoallRefusesSizesThatDoNotFit(t *testing.T) {
	hosts := []string{"a", "b"}
	for name, sizes := range map[string]AlltoallSizes{
		"negative":         {Uniform: -1},
		"negative element": {Matrix: [][]int64{{0, -1}, {0, 0}}},
		"one row":          {Matrix: [][]int64{{0, 1}}},
		"short row":        {Matrix: [][]int64{{0, 1}, {0}}},
	} {
		if _, err := NewAlltoall("x", hosts, sizes); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	p, err := NewAlltoall("x", hosts, AlltoallSizes{Matrix: [][]int64{{0, 7}, {9, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Size(Block{Origin: 1, Dest: 0}); got != 9 {
		t.Errorf("block 1→0 has %d bytes, want 9", got)
	}
}
