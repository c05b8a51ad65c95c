package group

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// TestVia: few bytes go from leader to leader by way of others, as the tree says, more straight; and by whom a host is told that should not, it says.
func TestVia(t *testing.T) {
	chain := func([]string) Tree { // a, b, c in a row; d is led by c
		return Tree{Leaders: []int{0, 1, 2, 2}, Limit: 60 << 10, Via: [][]int{{0, 0, 1}, {1, 1, 1}, {1, 2, 2}}}
	}
	for _, tt := range []struct {
		size int
		sent map[string][]string // to whom each host sends
	}{
		{100, map[string][]string{"a": {"b"}, "b": {"a", "c"}, "c": {"b", "d"}, "d": {"c"}}},
		{1500, map[string][]string{"a": {"b"}, "b": {"a", "c"}, "c": {"a", "b", "d"}, "d": {"c"}}}, // c's site has 3,000
		{9000, map[string][]string{"a": {"b", "c"}, "b": {"a", "c"}, "c": {"a", "b", "d"}, "d": {"c"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a", "b", "c", "d"}
			f, stop := newFabric(t, hosts...)
			f.tree = chain
			for rank, err := range f.each("job", hosts, func(r *Rank, rank int) error {
				for i := range 3 {
					res, err := r.Allgather(context.Background(), Bytes(fill(i, rank, int64(tt.size))), Wish{})
					if err != nil {
						return err
					}
					var to []string
					for _, p := range res.Report.Peers {
						if p.Sent > 0 {
							to = append(to, p.Host)
						}
					}
					for q := range hosts {
						if !slices.Equal(res.Data[q*tt.size:][:tt.size], fill(i, q, int64(tt.size))) {
							return fmt.Errorf("operation %d: wrong bytes of %d", i, q)
						}
					}
					if res.Report.Algorithm != "eager" || !slices.Equal(to, tt.sent[hosts[rank]]) {
						return fmt.Errorf("operation %d by %s: sent to %q", i, res.Report.Algorithm, to)
					}
					res.Release()
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("%d bytes, rank %d: %v", tt.size, rank, err)
				}
			}
			stop()
		})
	}
	tree := chain(nil)
	m := &member{tree: &tree, self: 2, passings: tree.passings(2)}
	for _, tt := range []struct {
		from, of int
		may      bool
	}{{1, 0, true}, {0, 0, true}, {1, 1, true}, {0, 1, false}, {3, 3, true}, {1, 3, false}, {3, 0, false}} {
		if got := m.mayTell(tt.from, tt.of); got != tt.may {
			t.Errorf("host %d tells host 2 of host %d: %v", tt.from, tt.of, got)
		}
	}
	for _, via := range [][][]int{{{0, 0, 1}}, {{0, 0, 1}, {1, 1, 1}, {1, 2}}, {{0, 2, 1}, {1, 1, 1}, {1, 2, 2}}, {{0, 0, 3}, {1, 1, 1}, {1, 2, 2}}, {{0, 0, -1}, {1, 1, 1}, {1, 2, 2}}} {
		bad := chain(nil)
		if bad.Via = via; bad.check(4) == nil {
			t.Errorf("%v passes", via)
		}
	}
}
