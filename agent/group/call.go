package group

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What ranks can ask for beside the collectives that plans describe.
const (
	// Broadcast is planned as an allgather in which only the root's host has bytes.
	Broadcast plan.Collective = "broadcast"
	// Barrier moves nothing and needs no plan.
	Barrier plan.Collective = "barrier"
)

// named is a collective with its article.
func named(c plan.Collective) string {
	if c == Broadcast || c == Barrier {
		return "a " + string(c)
	}
	return "an " + string(c)
}

// MaxUnderWay is how many operations of a rank may be under way at once. It bounds what a
// rank that is ahead can make others keep.
const MaxUnderWay = 16

// A Call is what a rank wants of one operation. All ranks of a group make the same calls in the
// same order.
type Call struct {
	Collective plan.Collective // plan.Allgather, plan.Alltoall, Broadcast or Barrier
	// In is what the rank contributes: its block (allgather), a block for each rank in rank
	// order (alltoall), what all are to get (the root of a broadcast), else nothing. Nil is no
	// bytes. It must stay unchanged until the operation is over.
	In Input
	// Sizes are the bytes of each block of an alltoall; nil means that all are equal.
	Sizes []int64
	// Root is the rank whose bytes a broadcast spreads.
	Root int
	Wish
}

// An inputError is the failure of one rank's input, not of its host.
type inputError struct {
	rank int
	err  error
}

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// prepare returns what the rank tells the coordinator of c, and what it keeps. An [inputError]
// is one that the other ranks are to be told of.
func (r *Rank) prepare(c *Call) (message, contribution, error) {
	if c.In == nil {
		c.In = Bytes(nil)
	}
	ready := message{
		Kind: kindReady, Rank: r.rank, Collective: c.Collective, Size: c.In.Size(),
		Algorithm: c.Algorithm, Options: c.Options, Plan: digest(c.Plan),
	}
	own := contribution{in: c.In, plan: c.Plan}
	n := len(r.m.roster)
	fail := func(format string, args ...any) error { return &inputError{r.rank, fmt.Errorf(format, args...)} }
	if len(c.Plan) > MaxPlan {
		return ready, own, fmt.Errorf("plan of %d bytes: at most %d", len(c.Plan), MaxPlan)
	}
	switch c.Collective {
	case plan.Allgather:
	case plan.Alltoall:
		row, err := enough(c.Sizes, ready.Size, n)
		if err != nil {
			return ready, own, fail("%w", err)
		}
		own.row = row
		ready.Even, ready.Rows = len(c.Sizes) == 0, appendRow(nil, row)
	case Broadcast:
		ready.Root = c.Root
		switch {
		case c.Root < 0 || c.Root >= n:
			return ready, own, fail("it wants a broadcast from rank %d of %d", c.Root, n)
		case c.Root != r.rank && ready.Size > 0:
			return ready, own, fail("it has %d bytes for the broadcast of rank %d: only the root gives any", ready.Size, c.Root)
		}
	case Barrier:
		if ready.Size > 0 {
			return ready, own, fail("it has %d bytes for a barrier, which moves none", ready.Size)
		}
	default:
		return ready, own, fmt.Errorf("no collective %q", c.Collective)
	}
	return ready, own, nil
}

// An Operation is one of a rank's operations, under way or over.
type Operation struct {
	r *Rank
	o *op
}

// Start begins the rank's next operation and returns. Several may be under way, at most
// [MaxUnderWay]; the order of the calls of Start is their order. Each keeps its result until
// [Operation.Drop], or until the rank leaves. Where the input is wrong the group fails, for all
// ranks, and so does Start.
func (r *Rank) Start(c Call) (*Operation, error) { return r.start(c, false) }

// Do is Start and Wait for a rank that does one thing at a time. It drops the results of the
// rank's operations before.
func (r *Rank) Do(ctx context.Context, c Call) (*Result, error) {
	o, err := r.start(c, true)
	if err != nil {
		return nil, err
	}
	return o.Wait(ctx)
}

// Allgather contributes in as this rank's block and returns when the blocks of all ranks are
// at this host and verified; else it is as [Rank.Do].
func (r *Rank) Allgather(ctx context.Context, in Input, w Wish) (*Result, error) {
	return r.Do(ctx, Call{Collective: plan.Allgather, In: in, Wish: w})
}

// Alltoall sends each rank its block of in, and returns when the blocks for this rank are here
// and verified; else it is as [Rank.Do].
func (r *Rank) Alltoall(ctx context.Context, in Input, sizes []int64, w Wish) (*Result, error) {
	return r.Do(ctx, Call{Collective: plan.Alltoall, In: in, Sizes: sizes, Wish: w})
}

func (r *Rank) start(c Call, alone bool) (*Operation, error) {
	ready, own, err := r.prepare(&c)
	if err == nil && r.m.eligible(&ready) && !r.offered(&ready) {
		own.eager, err = own.bytes(r.rank, ready.Size)
	}
	var wrong *inputError
	if errors.As(err, &wrong) {
		r.lost(RankFailed, err)
		<-r.m.ctx.Done()
		if err = context.Cause(r.m.ctx); errors.Is(err, context.Canceled) {
			err = errLeft
		}
	}
	if err != nil {
		return nil, err
	}
	o, then, err := r.begin(own, &ready, alone)
	if err != nil {
		return nil, err
	}
	r.m.say(ready)
	then()
	return &Operation{r, o}, nil
}

// Wait returns the operation's result. When ctx ends first, the rank is lost to the group:
// every rank gets the same error. It is called once.
func (p *Operation) Wait(ctx context.Context) (*Result, error) {
	m, o := p.r.m, p.o
	select {
	case <-o.finished:
	case <-ctx.Done():
	case <-m.ctx.Done():
	}
	switch { // of several that are ready select takes any, and what is over has its result
	case o.over():
	case m.ctx.Err() != nil:
		m.abandon(o)
		return nil, context.Cause(m.ctx)
	default:
		err := context.Cause(ctx)
		p.r.Cancel(err)
		m.abandon(o)
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	if !slices.Contains(p.r.held, o) { // the memory has gone with the rank, which has left since the operation was over
		if m.failed != nil {
			return nil, m.failed // that is why
		}
		return nil, errLeft
	}
	res := o.result
	v := res.views[p.r.rank]
	o.holders++
	out := &Result{
		Sizes: v.sizes, m: m, o: o,
		Report: Report{
			Planned: res.info, Elapsed: res.elapsed, Transferred: res.transfer,
			Hosts: len(m.hosts), Ranks: len(m.roster),
		},
	}
	if v.buf != nil {
		out.Data, out.buf = v.buf.Bytes(), v.buf
	}
	return out, nil
}

// Drop lets go of the operation's result, once it is over: the file is gone when all ranks of
// the host have. It does nothing before, and nothing a second time.
func (p *Operation) Drop() {
	m := p.r.m
	m.mu.Lock()
	var old []Buffer
	if p.o.over() {
		old = p.r.dropLocked(p.o)
	}
	m.mu.Unlock()
	free(old)
}
