package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/grid"
)

// measureCost: "on" and "off" are the seconds of Runs allgathers with probing as it is, and with none after the first measurements.
func measureCost(t *testing.T, c Cell, r *Reading) {
	file, err := threeSites(c.Grid)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"on", "off"} {
		cfg := grid.Config{}
		if mode == "off" {
			cfg.Agent = func(o *agent.Options) { o.ProbeInterval = 1000 * time.Hour }
		}
		onGrid(t, c, cfg, func(ctx context.Context, t *testing.T, g *grid.Grid) {
			for i := range c.Runs {
				job := wholeGrid(g, c, fmt.Sprintf("cost-%d", i), jobBytes(file, 10*time.Second))
				var took time.Duration
				for _, o := range g.Run(ctx, job) {
					if o.Err != nil {
						t.Fatal(o.Err)
					}
					took = max(took, o.Took)
				}
				r.add(mode, took.Seconds())
				time.Sleep(20 * time.Second)
			}
		})
	}
}
