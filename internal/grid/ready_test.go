package grid_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// A dialCounter counts the connections to other sites that an agent says it has dialed. The sites' names are the first letters of their hosts'.
type dialCounter struct {
	slog.Handler
	site   byte
	dialed *atomic.Int64
}

func (d dialCounter) Enabled(context.Context, slog.Level) bool { return true }
func (d dialCounter) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d dialCounter) WithGroup(string) slog.Handler            { return d }
func (d dialCounter) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "connected" {
		return nil
	}
	far, dialed := false, false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "peer":
			far = a.Value.String()[0] != d.site
		case "dialed":
			dialed = a.Value.Bool()
		}
		return true
	})
	if far && dialed {
		d.dialed.Add(1)
	}
	return nil
}

// TestLanesReady: the first exchange of a grid, and one after a pause, finds the connections between sites that it wants, where losses make it want two of each pair of hosts.
func TestLanesReady(t *testing.T) {
	if gridtest.Race {
		t.Skip("ten minutes of six agents: scripts/test runs it without the race detector, under which all grids here make lanes ready")
	}
	const perSite, pairs = 3, 3 * 3
	var dialed atomic.Int64
	count := func(o *agent.Options) {
		o.Log = slog.New(dialCounter{slog.DiscardHandler, o.Identity.Settings.Host[0], &dialed})
	}
	g := gridtest.Sites(t, "20Mbps", "40ms", perSite, perSite)
	for i := range g.WAN {
		g.WAN[i].Loss = 0.003
	}
	gridtest.Run(t, gridtest.Config{Grid: g, Seed: 4, Agent: count, Limit: 15 * time.Minute}, func(c *gridtest.Cluster) {
		for _, pause := range []time.Duration{3 * time.Minute, 6 * time.Minute} {
			time.Sleep(pause)
			before := dialed.Load()
			c.MustRun(c.Job("packed", c.EachHost(), 64<<10))
			c.T.Logf("after %v: %d connections for %d pairs, %d more with the exchange", pause, before, pairs, dialed.Load()-before)
			if before < 3*pairs {
				c.T.Errorf("after %v: %d connections for %d pairs, want lane 0 of each and a spare one each way", pause, before, pairs)
			}
		}
	})
}
