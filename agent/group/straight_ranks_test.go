package group

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Two ranks on each host have one packet for another host together, and not one each.
func TestStraightOfSeveralRanks(t *testing.T) {
	for _, c := range []struct {
		size     int // that a rank gives: for 4 ranks
		straight bool
	}{{4 * 20, true}, {4 * 30, false}} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b")
			defer stop()
			f.tree = func([]string) Tree {
				return Tree{Leaders: []int{0, 0}, Limit: 4 * 5, Straight: 2 * 100}
			}
			errs := f.each("job", []string{"a", "a", "b", "b"}, func(r *Rank, rank int) error {
				res, err := r.Do(context.Background(), Call{Collective: plan.Alltoall, In: Bytes(make([]byte, c.size))})
				if err != nil {
					return err
				}
				defer res.Release()
				if straight := res.Report.Algorithm == "eager"; straight != c.straight {
					return fmt.Errorf("%d bytes of a rank: %s", c.size, res.Report.Algorithm)
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
		})
	}
}
