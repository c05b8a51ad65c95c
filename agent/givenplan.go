package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/pools"
)

const (
	// maxAlgorithm bounds the name that a given plan has for its algorithm: it goes into
	// every report.
	maxAlgorithm = 64
	// maxPredicted bounds the transfers of a given plan that is forecast before it runs: they take some
	// tenths of a second.
	maxPredicted = 200_000
)

// givenPlan returns the plan that the ranks of r have brought, with its hosts in the order of
// r.Hosts, once it is proved to do what they ask for: that collective, over their hosts,
// with blocks of the sizes that they have. A plan for other sizes is refused rather than
// stretched: what it was made for, predicted and perhaps verified against, would not be
// what runs.
func givenPlan(p *planner.Problem, mapErr error, r group.Request) (*plan.Plan, group.Planned, error) {
	fail := func(err error) (*plan.Plan, group.Planned, error) { return nil, group.Planned{}, err }
	g, err := plan.Parse(r.Plan)
	if err != nil {
		return fail(err)
	}
	if g.Collective != r.Collective {
		return fail(fmt.Errorf("it is for an %s, and the ranks ask for an %s", g.Collective, r.Collective))
	}
	if len(g.Algorithm) > maxAlgorithm {
		return fail(fmt.Errorf("its algorithm has a name of %d bytes, want at most %d", len(g.Algorithm), maxAlgorithm))
	}
	if err := arrange(g, r.Hosts); err != nil {
		return fail(err)
	}
	if err := fits(g, r); err != nil {
		return fail(err)
	}
	// Chunked is the weaker rule for times, of which the engine takes only the order of starts.
	if err := plan.Verify(g, plan.Rules{Chunked: true}); err != nil {
		return fail(err)
	}
	info := group.Planned{Algorithm: g.Algorithm, Epoch: p.Snapshot.Epoch(), Given: true}
	if info.Algorithm == "" {
		info.Algorithm = "unnamed"
	}
	if mapErr == nil && len(g.Transfers) <= maxPredicted {
		if err := predict(p, g, &info); err != nil {
			return fail(err)
		}
	}
	return g, info, nil
}

// predict fills in what the map says of a plan. The plan's own times, which order what a
// host sends, stay.
func predict(p *planner.Problem, g *plan.Plan, info *group.Planned) error {
	var err error
	if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
		return err
	}
	bound, forecast, err := planner.Forecast(p, g, int64(exchange.ForecastChunk(p.LargestBlock())))
	if err != nil {
		return err
	}
	info.Bound, info.Predicted = seconds(bound.Seconds), seconds(forecast)
	return nil
}

// arrange gives g the hosts in that order. They must be the same.
func arrange(g *plan.Plan, hosts []string) error {
	at := make([]int, len(g.Hosts)) // by index in the plan
	for i, h := range g.Hosts {
		if at[i] = slices.Index(hosts, h); at[i] < 0 {
			return fmt.Errorf("its host %q has no rank in this group", h)
		}
	}
	for _, h := range hosts {
		if !slices.Contains(g.Hosts, h) {
			return fmt.Errorf("host %q has ranks, but no place in it", h)
		}
	}
	sizes, matrix := slices.Clone(g.Sizes), make([][]int64, len(g.Matrix))
	for i, to := range at {
		if g.Sizes != nil {
			sizes[to] = g.Sizes[i]
		}
		if g.Matrix != nil {
			matrix[to] = make([]int64, len(hosts))
			for j, n := range g.Matrix[i] {
				matrix[to][at[j]] = n
			}
		}
	}
	g.Hosts, g.Sizes = slices.Clone(hosts), sizes
	if g.Matrix != nil {
		g.Matrix = matrix
	}
	for i := range g.Cuts {
		c := &g.Cuts[i]
		if c.Origin = at[c.Origin]; c.Dest != plan.All {
			c.Dest = at[c.Dest]
		}
	}
	slices.SortFunc(g.Cuts, func(a, b plan.Cut) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Dest, b.Dest))
	})
	for i := range g.Transfers {
		t := &g.Transfers[i]
		t.Src, t.Dst = at[t.Src], at[t.Dst]
		for k, b := range t.Blocks {
			t.Blocks[k].Origin = at[b.Origin]
			if b.Dest != plan.All {
				t.Blocks[k].Dest = at[b.Dest]
			}
		}
	}
	return nil
}

// fits reports the first block that is larger or smaller in g than in r.
func fits(g *plan.Plan, r group.Request) error {
	for o, from := range r.Hosts {
		if r.Collective != plan.Alltoall {
			if has, want := g.Whole(plan.Block{Origin: o, Dest: plan.All}), r.Sizes[o]; has != want {
				return fmt.Errorf("it has %d bytes from host %s, whose ranks have %d: make it for these sizes", has, from, want)
			}
			continue
		}
		for d, to := range r.Hosts {
			if has, want := g.Whole(plan.Block{Origin: o, Dest: d}), r.Matrix[o][d]; o != d && has != want {
				return fmt.Errorf("it has %d bytes from host %s for host %s, the ranks have %d: make it for these sizes", has, from, to, want)
			}
		}
	}
	return nil
}
