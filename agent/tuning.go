package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
)

// tuning returns the planner's options for what the ranks have asked.
func tuning(o group.Options) (planner.Options, error) {
	p := planner.Options{
		Links:  min3.Shared, // real links are
		AAPC:   phase.Options{Sync: phase.Receiver, Block: o.SyncBlock, Strict: o.SyncStrict},
		Tuned:  o.Sync == "" && o.Within == "" && o.SyncBlock == 0 && !o.SyncStrict,
		Fanout: o.Fanout,
	}
	var err error
	if o.Sync == "" && o.Within == "" && p.AAPC == (phase.Options{Sync: phase.Receiver}) {
		p.AAPC.Sync = phase.Auto
	}
	if o.Sync != "" {
		if p.AAPC.Sync, err = phase.ParseSync(o.Sync); err != nil {
			return p, err
		}
	}
	if o.Within != "" {
		if p.AAPC.Within, err = phase.ParseSync(o.Within); err != nil {
			return p, err
		}
	}
	return p, nil
}

// checkOptions refuses, before anything is sent, what the coordinator would, and options
// that the algorithm does not look at: whoever gives one expects a difference.
func checkOptions(w *group.Wish) error {
	given := map[string]bool{
		"sync": w.Options.Sync != "", "sync-block": w.Options.SyncBlock != 0, "within": w.Options.Within != "",
		"sync-strict": w.Options.SyncStrict, "fanout": w.Options.Fanout != 0,
	}
	names := []string{"sync", "sync-block", "within", "sync-strict", "fanout"}
	names = slices.DeleteFunc(names, func(n string) bool { return !given[n] })
	switch {
	case w.Plan != nil && len(names) > 0:
		return fmt.Errorf("options %s and a plan: the plan is run as it is", strings.Join(names, ", "))
	case w.Algorithm != "":
		alg, err := planner.Asked(plan.Alltoall, w.Algorithm)
		if err != nil {
			return err
		}
		for _, n := range names {
			if !slices.Contains(alg.Options, n) {
				return fmt.Errorf("option %s is not for %s", n, alg.Name)
			}
		}
	}
	o, err := tuning(w.Options)
	if err != nil {
		return err
	}
	// Whether they fit together is aapc's to say. Two hosts are enough to ask.
	t, err := plan.NewTopology([]string{"switch"}, nil, []string{"a", "b"}, []int{0, 0}, 0)
	if err != nil {
		return err
	}
	_, err = phase.Schedule(t, plan.AlltoallSizes{}, o.AAPC)
	return err
}
