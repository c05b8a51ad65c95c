package grid_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// TestSmallByShorterWay: of two of three sites the link is five times as long as the two by way of the third. Small operations go by way of that: an
// allgather from leader to leader with its call, and by a plan once it has come again. Probes may be in the way of some rounds, or end the plan: the shortest counts.
func TestSmallByShorterWay(t *testing.T) {
	g, err := gridfile.Parse("shorter", []byte(`
sites:
  - {name: a, hosts: 2, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: b, hosts: 3, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: c, hosts: 2, lan: {bandwidth: 100Mbps, latency: 60us}}
wan:
  - {from: a, to: b, bandwidth: 10Mbps, latency: 10ms, both: true}
  - {from: b, to: c, bandwidth: 10Mbps, latency: 10ms, both: true}
  - {from: a, to: c, bandwidth: 10Mbps, latency: 100ms, both: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	gridtest.Run(t, gridtest.Config{Grid: g, Seed: 3}, func(c *gridtest.Cluster) {
		time.Sleep(20 * time.Second)
		const size = 200
		var how []string
		took := c.Series("small", c.EachHost(), 10, time.Second, func(ctx context.Context, r *client.Rank, rank int) error {
			res, err := r.Allgather(ctx, bytes.Repeat([]byte{byte(rank)}, size), client.Options{})
			if err != nil {
				return err
			}
			defer res.Close()
			for i, b := range res.Data {
				if int(b) != i/size {
					return fmt.Errorf("byte %d is of rank %d", i, b)
				}
			}
			if rank == 0 {
				how = append(how, res.Report.GetAlgorithm())
			}
			return nil
		})
		c.T.Logf("%v by %q", took, how)
		if how[0] != "eager" {
			c.T.Errorf("the first went by %s", how[0])
		}
		for _, op := range small {
			if op.name == "barrier" || op.name == "8 bytes" {
				took := c.Series(op.name, c.EachHost(), 5, time.Second, func(ctx context.Context, r *client.Rank, _ int) error { return op.do(ctx, r) })
				c.T.Logf("%s: %v", op.name, took)
				if least := slices.Min(took); least > 22*time.Millisecond {
					c.T.Errorf("%s took %v at least, want two ways of 10 ms", op.name, least)
				}
			}
		}
		if least := slices.Min(took[4:]); least > 30*time.Millisecond {
			c.T.Errorf("later ones took %v at least, want two ways of 10 ms", least)
		}
	})
}
