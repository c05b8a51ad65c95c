package smpi

import (
	"context"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// A Row compares predictions for one algorithm. Times are in seconds, 0 where there is none.
type Row struct {
	Collective plan.Collective `json:"collective"`
	Bytes      int64           `json:"bytes"` // of one block
	Model      Model           `json:"model"` // of SimGrid
	Algorithm  string          `json:"algorithm,omitempty"`

	Engine float64 `json:"engine_s,omitempty"` // as gridagent simulate: blocks stream through
	Queued float64 `json:"queued_s,omitempty"` // plan.Simulate of [Queued]: whole blocks, one after another
	Plan   *Record `json:"plan,omitempty"`     // SimGrid, the same plan
	InStep float64 `json:"instep_s,omitempty"` // plan.Simulate of [InStep], where SMPI has the algorithm
	Own    *Record `json:"own,omitempty"`      // SimGrid, SMPI's own algorithm

	Error string `json:"error,omitempty"` // why there is nothing more
}

// Others are SMPI's algorithms for c that have no counterpart of ours, and the selections of MPI
// libraries as SMPI has them. Some are for powers of two only.
func Others(c plan.Collective) []string {
	if c == plan.Alltoall {
		return []string{"2dmesh", "3dmesh", "rdb", "mvapich2_scatter_dest", "ring_light_barrier", "mpich", "ompi", "mvapich2", "impi"}
	}
	return []string{"bruck", "rdb", "2dmesh", "3dmesh", "GB", "rhv", "mpich", "ompi", "mvapich2", "impi"}
}

// Compare predicts collective c with blocks of size bytes by the algorithms called names, or by all
// of the planner's table where there are none, with both simulators. What does not apply is a row with an
// error in it. The error is that of ctx, or of a name.
func Compare(ctx context.Context, b *Bench, w *World, c plan.Collective, size int64, m Model, names ...string) ([]Row, error) {
	p := w.Problem
	p.Collective = c
	p.Sizes = slices.Repeat([]int64{size}, len(p.Hosts()))
	p.Alltoall = plan.AlltoallSizes{Uniform: size}
	algorithms := planner.Algorithms(c)
	if len(names) > 0 {
		algorithms = nil
		for _, name := range names {
			a, err := planner.Named(c, name)
			if err != nil {
				return nil, err
			}
			algorithms = append(algorithms, a)
		}
	}
	var rows []Row
	for _, a := range algorithms {
		r := Row{Collective: c, Bytes: size, Model: m, Algorithm: a.Name}
		if err := r.fill(ctx, b, &p, a); err != nil {
			r.Error = err.Error()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// fill makes the plan of a and has it predicted.
func (r *Row) fill(ctx context.Context, b *Bench, p *planner.Problem, a planner.Algorithm) error {
	s, err := planner.Schedule(a, p, int64(exchange.DefaultChunk(r.Bytes)))
	if err != nil {
		return err
	}
	r.Engine = s.Sim.Makespan
	queued, err := Queued(s.Plan)
	if err != nil {
		return err
	}
	if r.Queued, err = makespan(queued, s.Network); err != nil {
		return err
	}
	record, err := b.Plan(ctx, r.Model, queued)
	if err != nil {
		return err
	}
	r.Plan = &record
	return r.own(ctx, b, s)
}

// own has SMPI's own form of the algorithm predicted, if it has one.
func (r *Row) own(ctx context.Context, b *Bench, s *planner.Scheduled) error {
	name, ok := Counterpart(r.Collective, r.Algorithm, len(s.Plan.Hosts))
	if !ok {
		return nil
	}
	step, err := InStep(s.Plan)
	if err != nil {
		return err
	}
	if r.InStep, err = makespan(step, s.Network); err != nil {
		return err
	}
	record, err := b.Collective(ctx, r.Model, r.Collective, name, r.Bytes)
	if err != nil {
		return err
	}
	r.Own = &record
	return nil
}

// makespan simulates p to the letter: a transfer begins when all that it comes after has arrived.
func makespan(p *plan.Plan, net *plan.Network) (float64, error) {
	sim, err := plan.Simulate(p, net, plan.SimOptions{})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.Algorithm, err)
	}
	return sim.Makespan, nil
}
