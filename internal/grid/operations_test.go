package grid_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestDelays counts the one-way delays of small operations: between sites one, the longest that
// there is, from the first operation of a group on; inside a site one a round. Probes are in the way of
// some rounds: only the shortest counts. By way of the coordinator it would be twice the bound.
func TestDelays(t *testing.T) {
	const near = 60 * time.Microsecond // the one-way delay inside a site
	for _, tc := range []struct {
		hosts []int
		bound time.Duration
	}{
		{[]int{2, 1, 3}, 40*time.Millisecond + 2*near},
		{[]int{5}, 2 * near},
	} {
		gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "10Mbps", "40ms", tc.hosts...), Seed: 5}, func(c *gridtest.Cluster) {
			for _, op := range small {
				name := op.name
				took := c.Series(name, c.EachHost(), 7, time.Second, func(ctx context.Context, r *client.Rank, _ int) error { return op.do(ctx, r) })
				c.T.Logf("%d sites, %s: %v, bound %v", len(tc.hosts), name, took, tc.bound)
				slices.Sort(took)
				if op.straight {
					if len(tc.hosts) == 1 && took[0] > 3*near+3*time.Millisecond/4 { // three rounds, in which 4 KB cross two ports of 100 Mbit/s
						c.T.Errorf("inside a site, %s: %v", name, took)
					}
					continue
				}
				if took[0] < tc.bound-near || took[0] > tc.bound*6/5+time.Millisecond {
					c.T.Errorf("%d sites, %s: %v, want the shortest within 1.2 x %v and a millisecond", len(tc.hosts), name, took, tc.bound)
				}
			}
		})
	}
}

// small are operations that travel with their calls.
var small = []struct {
	name     string
	straight bool // inside one site
	do       func(ctx context.Context, r *client.Rank) error
}{
	{"barrier", false, func(ctx context.Context, r *client.Rank) error {
		_, err := r.Barrier(ctx, client.Options{})
		return err
	}},
	{"8 bytes", false, func(ctx context.Context, r *client.Rank) error {
		res, err := r.Allgather(ctx, []byte("8 bytes!"), client.Options{})
		if err == nil && (len(res.Data) != 8*len(r.Hosts()) || res.Report.GetAlgorithm() != "eager" && !res.Report.GetPlanCached()) { // or by a plan that was offered
			err = fmt.Errorf("%d bytes by %s", len(res.Data), res.Report.GetAlgorithm())
		}
		return err
	}},
	{"alltoall", false, func(ctx context.Context, r *client.Rank) error {
		res, err := r.Alltoall(ctx, make([]byte, 8*len(r.Hosts())), client.AlltoallOptions{})
		if err == nil && (len(res.Data) != 8*len(r.Hosts()) || res.Report.GetAlgorithm() != "eager") {
			err = fmt.Errorf("%d bytes by %s", len(res.Data), res.Report.GetAlgorithm())
		}
		return err
	}},
	{"1 KiB", true, func(ctx context.Context, r *client.Rank) error {
		res, err := r.Allgather(ctx, make([]byte, 1<<10), client.Options{})
		if err == nil && len(res.Data) != 1<<10*len(r.Hosts()) {
			err = fmt.Errorf("%d bytes by %s", len(res.Data), res.Report.GetAlgorithm())
		}
		return err
	}},
}
