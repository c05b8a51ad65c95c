package agent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/probe/netmap"
)

// plans are the plans that this agent has made as a coordinator and keeps, and what it has learnt from
// how they went.
type plans struct {
	cache      planner.Cache
	experience planner.Experience

	slot sync.Mutex // held while this host takes part in a tuning run

	mu      sync.Mutex // guards running, over and tuning; nothing blocks while it is held
	running map[exchange.ID]*running
	over    []span                     // of the latest operations that ended, at most maxOver
	tuning  map[group.ID]func(outcome) // who wants to know of each operation of a group
}

// A running operation was planned here, and its end has not been heard of.
type running struct {
	by     run
	before *run // the plan that was kept for it until experience said that another is faster: hosts may have begun by that one. Else nil
	begun  time.Time
	given  time.Time // when its end is given up: nobody tells of operations that fail
}

// A run is what an operation runs by.
type run struct {
	class     planner.Spot
	algorithm string
	forecast  float64 // seconds, not corrected
}

// A span is when an operation ran.
type span struct{ from, to time.Time }

// An outcome is how an operation went that was planned here.
type outcome struct {
	run
	achieved float64 // seconds
}

const (
	// maxRunning bounds the operations whose end is awaited.
	maxRunning = 1024
	// patience is after how many times its forecast an operation counts as failed, and leastPatience the least.
	patience      = 20
	leastPatience = time.Minute
	// maxOver bounds the operations that are over and may have run beside one that is not.
	maxOver = 64
	// evenStart is the part of its time by which hosts may have begun before the last one if an operation is to teach something: what they
	// had sent by then is half counted, so that what is learnt is off by up to a quarter. With 32 agents on two processors it is a tenth and more, whatever the ranks do, and of
	// operations of a quarter of a second that follow one another a half: where that taught nothing, they went by a poor choice for ever.
	evenStart = 0.6
	// apart is the part of its time for which another may have run beside one that is to teach something.
	apart = 0.05
)

// factor returns the corrections as of now, to be called by one goroutine at a time.
func (s *plans) factor(now time.Time) func(planner.Spot, string) float64 {
	var last *planner.Judgement
	var at planner.Spot
	return func(c planner.Spot, algorithm string) float64 {
		if last == nil || c != at {
			last, at = s.experience.Judge(c, now), c
		}
		return last.Factor(algorithm)
	}
}

// planKept returns the parts of a plan that is kept for r, stamped with the exchange's id.
func (a *Agent) planKept(id exchange.ID, r group.Request, now time.Time) ([][]byte, group.Planned, bool) {
	if r.Plan != nil {
		return nil, group.Planned{}, false
	}
	p, err := problemOf(r)
	if err != nil {
		return nil, group.Planned{}, false // decide says what is wrong
	}
	factor := a.plans.factor(now)
	checks := a.checks(r, factor)
	if !r.Ahead {
		checks = a.plans.noting(checks, id, now)
	}
	kept, ok := a.plans.cache.Lookup(planner.KeyOf(r.Hosts, p, r.Algorithm), now, checks)
	if !ok || len(kept.Parts) != len(r.Hosts) {
		return nil, group.Planned{}, false
	}
	parts := make([][]byte, len(kept.Parts))
	for i, part := range kept.Parts {
		if parts[i], err = exchange.Restamp(part, id); err != nil {
			return nil, group.Planned{}, false
		}
	}
	s := &kept.Selection
	if !r.Ahead {
		a.plans.begin(id, runOf(s), now)
	}
	return parts, group.Planned{
		Algorithm: s.Algorithm, Epoch: kept.MapEpoch, Bound: seconds(s.Bound), Direct: seconds(s.Direct), Cached: true, Reason: s.Reason,
		Predicted: seconds(s.Forecast * factor(s.Class, s.Algorithm)),
	}, true
}

// stands reports whether r would get a plan that is kept: the coordinator's share of group.Config.
func (a *Agent) stands(r group.Request) bool {
	p, err := problemOf(r)
	return err == nil && a.plans.cache.Stands(planner.KeyOf(r.Hosts, p, r.Algorithm), a.checks(r, a.plans.factor(time.Now())))
}

// checks are what a plan that is kept for r must stand.
func (a *Agent) checks(r group.Request, factor func(planner.Spot, string) float64) planner.Checks {
	return planner.Checks{
		Shape: a.shapeName(),
		Moved: func(k *planner.Kept) string {
			snap := a.plansMap(r.Hosts)
			if err := complete(snap); err != nil {
				return err.Error()
			}
			return k.Basis.Moved(snap)
		},
		Outdone: func(k *planner.Kept) string {
			if r.Algorithm != "" {
				return "" // it was asked for
			}
			return k.Selection.Outdone(func(name string) float64 { return factor(k.Selection.Class, name) })
		},
	}
}

// keep keeps a plan that has been made for r, and awaits the end of the operation id.
func (a *Agent) keep(id exchange.ID, r group.Request, d decision, parts [][]byte, snap *netmap.Snapshot, now time.Time) {
	p, err := problemOf(r)
	if err != nil {
		return // it was planned, so it cannot be
	}
	s := d.selection
	if !r.Ahead {
		a.plans.begin(id, run{d.class, s.Algorithm.Name, s.Taken.Forecast}, now)
	}
	a.plans.cache.Keep(planner.KeyOf(r.Hosts, p, r.Algorithm), &planner.Kept{
		Collective: r.Collective, Asked: r.Algorithm, Hosts: len(r.Hosts), Bytes: p.LargestBlock(),
		Selection: planner.Summary{
			Algorithm: s.Algorithm.Name, Class: d.class, Bound: s.Bound.Seconds, Direct: s.Direct.Seconds, Forecast: s.Taken.Forecast, Cost: time.Since(now).Seconds(),
			Reason: d.info.Reason, Candidates: s.Candidates,
		},
		Parts: parts, Basis: s.Basis, Shape: d.shape, MapEpoch: snap.Epoch(),
	}, now)
}

func runOf(s *planner.Summary) run { return run{s.Class, s.Algorithm, s.Forecast} }

// noting is checks, which has notice taken of the plan that operation id would have run by if another were not faster by now. It is the first that is asked about:
// those that it had outdone come after it.
func (s *plans) noting(checks planner.Checks, id exchange.ID, now time.Time) planner.Checks {
	outdone, first := checks.Outdone, true
	checks.Outdone = func(k *planner.Kept) string {
		why := outdone(k)
		if first && why != "" {
			s.replaced(id, runOf(&k.Selection), now)
		}
		first = false
		return why
	}
	return checks
}

// replaced notes that the plan kept for operation id is experience's no longer, before another is made.
func (s *plans) replaced(id exchange.ID, before run, now time.Time) {
	s.await(id, running{by: before, before: &before}, now)
}

// begin notes that an operation has been planned.
func (s *plans) begin(id exchange.ID, by run, now time.Time) {
	s.await(id, running{by: by}, now)
}

// await keeps r until the end of operation id is heard of, with what was there before of its plans.
func (s *plans) await(id exchange.ID, r running, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.running, func(_ exchange.ID, r *running) bool { return now.After(r.given) })
	if s.running == nil {
		s.running = make(map[exchange.ID]*running)
	}
	if old := s.running[id]; old != nil && r.before == nil {
		r.before = old.before
	} else if old == nil && len(s.running) >= maxRunning {
		return
	}
	r.begun, r.given = now, now.Add(max(leastPatience, seconds(patience*r.by.forecast)))
	s.running[id] = &r
}

// alone reports whether an operation that is over shared the links with no other that was planned here, and notes when it ran. By when the news came
// nothing can be told: an operation that is asked for again has begun by then.
func (s *plans) alone(ran span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := time.Duration(apart * float64(ran.to.Sub(ran.from)))
	alone := true
	for _, r := range s.running {
		alone = alone && ran.to.Sub(r.begun) <= most
	}
	for _, o := range s.over {
		from, to := ran.from, ran.to
		if o.from.After(from) {
			from = o.from
		}
		if o.to.Before(to) {
			to = o.to
		}
		alone = alone && to.Sub(from) <= most
	}
	if len(s.over) == maxOver {
		s.over = slices.Delete(s.over, 0, 1)
	}
	s.over = append(s.over, ran)
	return alone
}

// finished takes the end of an operation that was planned here: group.Config.Finished. What ran beside
// another operation teaches nothing: both shared the links.
func (a *Agent) finished(f group.Finished) {
	s := &a.plans
	s.mu.Lock()
	id := exchangeID(f.Group, f.Seq)
	r := s.running[id]
	delete(s.running, id)
	tell := s.tuning[f.Group]
	s.mu.Unlock()
	alone := s.alone(span{f.Ended.Add(-f.Elapsed - f.Spread), f.Ended})
	if r == nil {
		return
	}
	by := &r.by
	if f.Stale {
		by = r.before
	}
	if by == nil || by.algorithm != f.Algorithm {
		return
	}
	o := outcome{run: *by, achieved: (f.Elapsed + f.Spread/2).Seconds()}
	switch {
	case tell != nil:
		tell(o)
	case alone && float64(f.Spread) <= evenStart*float64(f.Elapsed):
		s.experience.Add(o.class, o.algorithm, o.forecast, o.achieved, false, time.Now())
	}
}
