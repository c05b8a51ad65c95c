package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe"
)

// measureCost: "on" and "off" are the seconds of Runs allgathers with probing as it is, and with none once the grid is known:
// to the probers an exchange always runs then, and none of them grants a second opinion since nothing is suspected by them.
func measureCost(t *testing.T, c Cell, r *Reading) {
	file, err := threeSites(c.Grid)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"on", "off"} {
		var quiet atomic.Bool
		cfg := grid.Config{}
		if mode == "off" {
			cfg.Agent = func(o *agent.Options) {
				o.Probe = func(p *probe.Config) {
					busy := p.Busy
					p.Busy = func() bool { return quiet.Load() || busy() }
				}
			}
		}
		onGrid(t, c, cfg, func(ctx context.Context, t *testing.T, g *grid.Grid) {
			quiet.Store(true)
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
