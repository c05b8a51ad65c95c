package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// A tuning run measures what planning can only predict: for each collective and size it runs all
// algorithms that may be the fastest, in turn, over the live grid, and remembers how long each took. It is
// the automatic tuning of Faraj & Yuan, "Automatic Generation and Tuning of MPI Collective Communication
// Routines" (ICS 2005), with candidates from the planner's table.
//
// The host that was asked is rank 0 and so the coordinator; it asks the agents of all others to run a rank
// each, over a stream of its own, and ends them by ending the stream.

// What a run may ask of other hosts.
const (
	tuneWithin   = 4       // candidates take at most so many times as long as the best is expected to
	maxTuneOps   = 4096    // operations of one run
	maxTuneHosts = 1024    // ranks of one run
	maxTuneBytes = 1 << 30 // of what a rank gets in one operation
	maxTuneOrder = 1 << 20 // bytes of an order on the wire
	tuneForming  = 30 * time.Second
	tuneNews     = 10 * time.Second // for the ends of an operation to be told of, once this host has come to its own
)

// defaultTuneSizes are measured where none are asked for: bytes of a block.
var defaultTuneSizes = []uint64{1 << 10, 64 << 10, 1 << 20}

// watch hands the ends of the operations of a group to outcomes, which has room for one, until it is called off.
func (s *plans) watch(id group.ID, outcomes chan<- outcome) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tuning == nil {
		s.tuning = make(map[group.ID]func(outcome))
	}
	s.tuning[id] = func(o outcome) {
		select {
		case outcomes <- o:
		default: // nobody has waited for the last one
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tuning, id)
	}
}

// A tuneRun is one run at the host that was asked for it.
type tuneRun struct {
	a          *Agent
	hosts      []string // this one first
	iterations int
	steps      []tuneStep
	say        func(*apiv1.TuneEvent) error
}

// A tuneStep is one collective and size.
type tuneStep struct {
	collective plan.Collective
	bytes      int64
	bound      float64
	rivals     []planner.Candidate
	times      map[string][]float64 // by algorithm
}

// ops returns the operations of the run: of each size one to warm up, and then all rivals in turn, so that
// none of them has the better minute.
func (t *tuneRun) ops() (ops []tuneOp, step []int) {
	for k, s := range t.steps {
		add := func(name string) {
			ops, step = append(ops, tuneOp{s.collective, name, s.bytes}), append(step, k)
		}
		add(s.rivals[0].Algorithm)
		for range t.iterations {
			for _, c := range s.rivals {
				add(c.Algorithm)
			}
		}
	}
	return ops, step
}

// run measures and tells. It returns once all that it started has ended.
func (t *tuneRun) run(ctx context.Context) error {
	if !t.a.plans.slot.TryLock() {
		return errTuning
	}
	defer t.a.plans.slot.Unlock()
	ops, step := t.ops()
	order := tuneOrder{Job: "tune-" + rand.Text(), Ranks: len(t.hosts), Ops: ops}
	if err := order.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ranks, ctx := errgroup.WithContext(ctx)
	for r, host := range t.hosts[1:] {
		ranks.Go(func() error {
			if err := t.a.orderRank(ctx, host, order, r+1); err != nil {
				return fmt.Errorf("host %s: %w", host, err)
			}
			return nil
		})
	}
	ranks.Go(func() error {
		last := -1
		return t.a.tuneRank(ctx, &order, func(i int, res *group.Result, o outcome) error {
			s := &t.steps[step[i]]
			warm := step[i] != last
			last = step[i]
			s.bound = res.Report.Bound.Seconds()
			if !warm {
				s.times[o.algorithm] = append(s.times[o.algorithm], o.achieved)
				t.a.plans.experience.Add(o.class, o.algorithm, o.forecast, o.achieved, true, time.Now())
			}
			if err := t.say(&apiv1.TuneEvent{Event: &apiv1.TuneEvent_Progress{Progress: &apiv1.TuneProgress{
				Done: uint32(i + 1), Total: uint32(len(ops)), Step: fmt.Sprintf("%s by %s", s.collective, o.algorithm),
			}}}); err != nil {
				return err
			}
			if i+1 == len(ops) || step[i+1] != step[i] {
				return t.rows(s)
			}
			return nil
		})
	})
	return ranks.Wait()
}

// rows tells what came of one collective and size, the fastest first.
func (t *tuneRun) rows(s *tuneStep) error {
	rows := make([]*apiv1.TuneRow, 0, len(s.rivals))
	for _, c := range s.rivals {
		times := s.times[c.Algorithm]
		if len(times) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(times))
		rows = append(rows, &apiv1.TuneRow{
			Collective: string(s.collective), Bytes: uint64(s.bytes), Algorithm: c.Algorithm, PredictedSeconds: c.Predicted(),
			MeasuredSeconds: (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2, Seconds: times, BoundSeconds: s.bound,
		})
	}
	slices.SortStableFunc(rows, func(a, b *apiv1.TuneRow) int { return cmp.Compare(a.MeasuredSeconds, b.MeasuredSeconds) })
	for i, row := range rows {
		row.Winner = i == 0
		if err := t.say(&apiv1.TuneEvent{Event: &apiv1.TuneEvent_Row{Row: row}}); err != nil {
			return err
		}
	}
	return nil
}

// rivals returns the step of one collective and size: who takes part in it. The end of ctx is seen between two algorithms that were named.
func (a *Agent) rivals(ctx context.Context, hosts []string, c plan.Collective, bytes int64, algorithms []string) (s tuneStep, err error) {
	s = tuneStep{collective: c, bytes: bytes, times: make(map[string][]float64)}
	snap := a.plansMap(hosts)
	if err := complete(snap); err != nil {
		return s, err
	}
	r := group.Request{Collective: c, Hosts: hosts}
	if c == plan.Allgather {
		r.Sizes = slices.Repeat([]int64{bytes}, len(hosts))
	} else {
		row := slices.Repeat([]int64{bytes}, len(hosts))
		r.Matrix = slices.Repeat([][]int64{row}, len(hosts))
	}
	p, err := completeProblem(a.shape(snap), snap, r)
	if err != nil {
		return s, err
	}
	class := planner.SpotOf(p)
	factor := a.plans.factor(time.Now())
	advice := planner.Advice{Factor: func(name string) float64 { return factor(class, name) }}
	chunk := int64(exchange.ForecastChunk(p.LargestBlock()))
	if len(algorithms) == 0 {
		s.rivals, err = planner.Rivals(p, chunk, advice, tuneWithin)
		return s, err
	}
	for _, name := range algorithms {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		alg, err := planner.Named(c, name)
		if err != nil {
			return s, err
		}
		sel, err := planner.SelectNamed(alg, p, chunk, advice)
		if err != nil {
			return s, err
		}
		s.rivals = append(s.rivals, sel.Taken)
	}
	return s, nil
}
