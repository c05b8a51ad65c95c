package agent

import (
	"context"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Warnings are sentences about what the operator should look at: hosts that measure as if they
// stood in another site, reports that contradict all others or are absurd, hosts that let this one
// measure nothing, declared switch trees that disagree or do not fit what is measured.
func (a *Agent) Warnings() []string {
	warnings := slices.Clone(a.pools.current().tree.Warnings)
	warnings = append(warnings, a.netmap.Warnings(time.Now())...)
	warnings = append(warnings, a.prober.Warnings(time.Now())...)
	trees, wrong := a.switches.current()
	warnings = append(warnings, wrong...)
	for _, t := range trees {
		doubt := t.doubt(t.Hosts(), func(from, to string) (netmap.BytesPerSec, bool) {
			e, ok := a.knownEstimate(from, to)
			return e.Bandwidth, ok && e.Has(netmap.FieldBandwidth)
		})
		if doubt != "" {
			warnings = append(warnings, doubt)
		}
	}
	return warnings
}

const (
	warnEvery = 10 * time.Second
	maxWarned = 256 // sentences that are remembered, so as not to be logged again
)

// warn logs each warning once, when it is new, until ctx ends. Placement warnings are the pool
// tree's own, which logs them.
func (a *Agent) warn(ctx context.Context) {
	warned := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(warnEvery):
		}
		now := a.Warnings()
		for _, w := range now {
			if !warned[w] && len(warned) < maxWarned && !slices.Contains(a.pools.current().tree.Warnings, w) {
				a.log.Warn("look at this", "warning", w)
			}
		}
		clear(warned)
		for _, w := range now[:min(len(now), maxWarned)] {
			warned[w] = true
		}
	}
}
