package grid_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestManyJobs runs 12 jobs at once over the same hosts and links. They share the links fairly, and
// all of them together are not slower than one after the other.
func TestManyJobs(t *testing.T) {
	const jobs = 12
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "8Mbps", "25ms", 2, 2), Seed: 6}, func(c *gridtest.Cluster) {
		all := make([]grid.Job, jobs)
		for i := range all {
			all[i] = c.Job("", c.EachHost(), 64<<10)
			all[i].Name = fmt.Sprint("job ", i)
		}
		alone := make([]time.Duration, 3)
		var apart time.Duration // one after the other
		for i := range alone {
			alone[i] = c.MustRun(all[i]).Makespan
			apart += alone[i] * jobs / time.Duration(len(alone))
		}
		results := make([]*gridtest.Result, jobs)
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { results[i] = c.Run(all[i]) })
		}
		wg.Wait()
		together := time.Since(begun)
		var took []time.Duration
		for i, j := range all {
			c.Check(j, results[i])
			took = append(took, results[i].Makespan)
		}
		slices.Sort(took)
		c.T.Logf("alone %v; together %v from the first Join on, makespans %v", alone, together, took)
		if first, last := took[0], took[jobs-1]; last > first*3/2 {
			c.T.Errorf("makespans from %v to %v: want none over 1.5 times another", first, last)
		}
		if together > apart*11/10 {
			c.T.Errorf("%d jobs took %v together, one after the other %v", jobs, together, apart)
		}
	})
}
