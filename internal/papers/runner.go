package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/exchange/gantt"
	"github.com/gridagent/gridagent/exchange/plan"
)

// A runner measures experiments. What several of them need it measures once.
type runner struct {
	quick    bool
	progress func(format string, args ...any)
	emulator emulator

	mu   sync.Mutex // guards done
	done map[task]emulation
}

// A task is one time to be measured.
type task struct {
	source     Source
	arena      string // the first of those that are the same: see twin
	collective plan.Collective
	contender  string
	size       int64
	timeline   bool // when transfers between sites ran is wanted
}

// maxVolume is how many bytes an emulated exchange may deliver: both its ends are in memory.
const maxVolume = 300 << 20

// measure runs e and returns what it measured.
func (r *runner) measure(ctx context.Context, e *experiment) (*Raw, error) {
	began := time.Now()
	raw := &Raw{Experiment: e.id, Quick: r.quick}
	var tasks []task
	of := make([][]task, len(e.sweeps))
	for i := range e.sweeps {
		var err error
		if of[i], err = e.sweeps[i].tasks(r.quick); err != nil {
			return nil, fmt.Errorf("%s: %w", e.id, err)
		}
		tasks = append(tasks, of[i]...)
	}
	if err := r.predict(ctx, e, tasks); err != nil {
		return nil, err
	}
	if err := r.emulate(ctx, e, tasks); err != nil {
		return nil, err
	}
	for i, s := range e.sweeps {
		for _, t := range of[i] {
			x := r.done[t]
			x.Grid = s.arena
			raw.Records = append(raw.Records, x.Record)
			if s.timeline {
				raw.Timelines = append(raw.Timelines, timelineOf(x))
			}
		}
	}
	if e.more != nil {
		if err := e.more(ctx, r, raw); err != nil {
			return nil, err
		}
	}
	raw.Seconds = time.Since(began).Seconds()
	return raw, nil
}

func timelineOf(x emulation) Timeline {
	t := Timeline{Source: x.Source, Name: x.name(), Grid: x.Grid, SizeBytes: x.SizeBytes, Transfers: len(x.Timeline)}
	var spans []gantt.Span
	for _, s := range x.Timeline {
		spans = append(spans, gantt.Span{Start: s[0], End: s[1]})
	}
	t.Steps = gantt.Concurrency(spans)
	return t
}

// tasks lists what the sweep needs, by contender and ascending size.
func (s *sweep) tasks(quick bool) ([]task, error) {
	a, err := arenaOf(s.arena)
	if err != nil {
		return nil, err
	}
	network, err := twin(a)
	if err != nil {
		return nil, err
	}
	predicted, emulated := s.predicted, s.emulated
	who := s.contenders
	if quick { // the smallest size, and two contenders: does all of it still work?
		predicted, emulated, who = predicted[:min(1, len(predicted))], emulated[:min(1, len(emulated))], who[:min(2, len(who))]
	}
	var list []task
	add := func(source Source, sizes []int64) {
		for _, c := range who {
			for _, size := range sizes {
				if source == Emulated && a.volume(size) > maxVolume {
					continue
				}
				list = append(list, task{source, network, s.collective, c, size, s.timeline})
			}
		}
	}
	add(cmp.Or(s.predict, Simulated), predicted)
	add(Emulated, emulated)
	return list, nil
}

// missing returns those of tasks that have not been measured, each once.
func (r *runner) missing(tasks []task, want func(task) bool) []task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(map[task]emulation)
	}
	var out []task
	seen := make(map[task]bool)
	for _, t := range tasks {
		if _, ok := r.done[t]; !ok && !seen[t] && want(t) {
			out = append(out, t)
			seen[t] = true
		}
	}
	return out
}

func (r *runner) keep(t task, x emulation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[t] = x
}

// predict measures what needs no emulation, on all cores.
func (r *runner) predict(ctx context.Context, e *experiment, tasks []task) error {
	todo := r.missing(tasks, func(t task) bool { return t.source != Emulated })
	outer := ctx
	group, ctx := errgroup.WithContext(outer) // ends with Wait
	group.SetLimit(runtime.NumCPU())
	for i, t := range todo {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := predicted(t)
			if err != nil {
				return fmt.Errorf("%s: %w", e.id, err)
			}
			r.keep(t, x)
			return nil
		})
		r.progress("%s: predicted %d of %d", e.id, i+1, len(todo))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return outer.Err()
}

func predicted(t task) (emulation, error) {
	var x emulation
	a, err := arenaOf(t.arena)
	if err != nil {
		return x, err
	}
	c, err := contenderOf(t.collective, t.contender)
	if err != nil {
		return x, err
	}
	p, sim := (*plan.Plan)(nil), (*plan.SimResult)(nil)
	switch t.source {
	case ModelHalf:
		x.Record, p, sim, err = modelled(a, c, t.size, plan.HalfDuplex)
	case ModelFull:
		x.Record, p, sim, err = modelled(a, c, t.size, plan.FullDuplex)
	default:
		x.Record, p, sim, err = simulated(a, c, t.size)
	}
	if err != nil || !t.timeline {
		return x, err
	}
	for i := range p.Transfers {
		if tr := &p.Transfers[i]; a.between(tr.Src, tr.Dst) {
			x.Timeline = append(x.Timeline, span{sim.Start[i], sim.End[i]})
		}
	}
	return x, nil
}

// emulate runs the engines.
func (r *runner) emulate(ctx context.Context, e *experiment, tasks []task) error {
	todo := r.missing(tasks, func(t task) bool { return t.source == Emulated })
	if len(todo) == 0 {
		return nil
	}
	var jobs []job
	of := make(map[string]task)
	for _, t := range todo {
		a, err := arenaOf(t.arena)
		if err != nil {
			return err
		}
		j := job{Arena: t.arena, Collective: t.collective, Contender: t.contender, Size: t.size, Timeline: t.timeline}
		j.Warmup, j.Repeats = repeats(a.volume(t.size))
		jobs = append(jobs, j)
		of[fmt.Sprint(j.group(), j.Size)] = t
	}
	came := 0
	r.progress("%s: emulated 0 of %d", e.id, len(jobs))
	return r.emulator.run(ctx, jobs, func(x emulation) {
		j := job{Arena: x.Grid, Collective: plan.Collective(x.Collective), Contender: x.name(), Size: x.SizeBytes}
		if t, ok := of[fmt.Sprint(j.group(), j.Size)]; ok {
			r.keep(t, x)
		}
		came++
		r.progress("%s: emulated %d of %d", e.id, came, len(jobs))
	})
}
