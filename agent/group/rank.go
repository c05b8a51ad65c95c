package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Report tells how an operation went at this host.
type Report struct {
	Planned
	Elapsed time.Duration // from the group's start to this host's completion
	Transferred
	Hosts, Ranks int
}

// A Result is what a rank gets from an operation: the blocks from all ranks, in rank order,
// and their sizes. Data is valid until Release, the file at Path until the rank's next
// operation or Leave.
type Result struct {
	Data   []byte
	Path   string
	Sizes  []int64
	Report Report

	m *member
	o *op
}

// Release lets go of Data. It is called once.
func (r *Result) Release() {
	r.m.mu.Lock()
	b := r.m.dropLocked(r.o)
	r.m.mu.Unlock()
	free(b)
}

// Done ends when the group is over; the cause is the [Failure], if there was one.
func (r *Rank) Done() context.Context { return r.m.ctx }

// Hosts returns the host of each rank. The caller must not modify it.
func (r *Rank) Hosts() []string { return r.m.roster }

// An Input is what a rank contributes: so many bytes, copied once, to where the exchange
// reads them.
type Input interface {
	Size() int64
	// CopyTo fills dst, which is Size long. It fails if the input has shrunk.
	CopyTo(dst []byte) error
}

// Bytes is an [Input] in memory.
type Bytes []byte

// Size implements [Input].
func (b Bytes) Size() int64 { return int64(len(b)) }

// CopyTo implements [Input].
func (b Bytes) CopyTo(dst []byte) error {
	copy(dst, b)
	return nil
}

// Allgather contributes in as this rank's block and returns when the blocks of all
// ranks are at this host and verified. in must stay unchanged until then. Ranks call
// it in the same order, with the same wish.
// When ctx ends first, the rank is lost to the group: every rank gets the same error.
func (r *Rank) Allgather(ctx context.Context, in Input, w Wish) (*Result, error) {
	ready := message{Collective: plan.Allgather}
	return r.operate(ctx, ready, contribution{in: in, plan: w.Plan}, w)
}

// Alltoall sends each rank its block of in, which holds one for each in rank order, and
// returns when the blocks for this rank are here and verified; else it is as
// [Rank.Allgather]. sizes are the bytes of each block; without any all are equal, at every
// rank that gives none. Where they do not fit the input, the group fails, for all ranks.
func (r *Rank) Alltoall(ctx context.Context, in Input, sizes []int64, w Wish) (*Result, error) {
	row, err := enough(sizes, in.Size(), len(r.m.roster))
	if err != nil {
		r.lost(RankFailed, err)
		<-r.m.ctx.Done()
		if err := context.Cause(r.m.ctx); !errors.Is(err, context.Canceled) {
			return nil, err
		}
		return nil, errLeft
	}
	ready := message{Collective: plan.Alltoall, Even: len(sizes) == 0, Rows: appendRow(nil, row)}
	return r.operate(ctx, ready, contribution{in: in, row: row, plan: w.Plan}, w)
}

// operate enters the rank into its next operation, for which ready says what the collective
// needs, and waits for the end.
func (r *Rank) operate(ctx context.Context, ready message, c contribution, w Wish) (*Result, error) {
	if len(w.Plan) > MaxPlan {
		return nil, fmt.Errorf("plan of %d bytes: at most %d", len(w.Plan), MaxPlan)
	}
	o, err := r.begin(c)
	if err != nil {
		return nil, err
	}
	ready.Kind, ready.Seq, ready.Rank, ready.Size = kindReady, o.seq, r.rank, c.in.Size()
	ready.Algorithm, ready.Options, ready.Plan = w.Algorithm, w.Options, digest(w.Plan)
	r.m.say(ready)
	select {
	case <-o.finished:
	case <-ctx.Done():
		err := context.Cause(ctx)
		r.lost(Cancelled, err)
		<-r.m.ctx.Done()
		r.m.abandon(o)
		return nil, err
	case <-r.m.ctx.Done():
		r.m.abandon(o)
		return nil, context.Cause(r.m.ctx)
	}
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	res := o.result
	v := res.views[r.rank]
	o.holders++
	return &Result{
		Data: v.buf.Bytes(), Path: v.buf.Path(), Sizes: v.sizes, m: r.m, o: o,
		Report: Report{
			Planned: res.info, Elapsed: res.elapsed, Transferred: res.transfer,
			Hosts: len(r.m.hosts), Ranks: len(r.m.roster),
		},
	}, nil
}

// abandon returns once the operation of a group that is over no longer uses the
// inputs: when it has ended, or at once if it never started and now never will.
func (m *member) abandon(o *op) {
	m.mu.Lock()
	running := o.running
	if !running {
		o.inputs = nil
	}
	m.mu.Unlock()
	if running {
		<-o.finished
	}
}

// begin enters the rank's input into its next operation.
func (r *Rank) begin(c contribution) (*op, error) {
	m := r.m
	var old []Buffer
	defer func() { free(old) }() // after the unlock below: unmapping is I/O
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, m.failed
	}
	if r.gone || m.ctx.Err() != nil {
		return nil, errLeft
	}
	if r.last != nil && r.last.result == nil {
		return nil, fmt.Errorf("rank %d: an operation is running already", r.rank)
	}
	old = m.releaseLocked(r)
	o := m.ops[r.next]
	if o == nil {
		o = &op{seq: r.next, inputs: make(map[int]contribution), finished: make(chan struct{})}
		m.ops[r.next] = o
	}
	r.next++
	r.last = o
	o.holders++
	o.inputs[r.rank] = c
	return o, nil
}

var errLeft = errors.New("the rank has left the group")

// Progress tells how many of the result's bytes have arrived, 0 and 0 if nothing runs.
func (r *Rank) Progress() (done, total int64) {
	r.m.mu.Lock()
	o := r.last
	r.m.mu.Unlock()
	if o == nil {
		return 0, 0
	}
	progress := o.progress.Load()
	if progress == nil {
		return 0, 0
	}
	return (*progress)()
}

// Leave ends the rank's part in good order, or, if an operation of it is running,
// as a loss with cause. It returns when the rank's memory is free.
func (r *Rank) Leave(cause string) { r.depart(RankLost, cause, "") }

// Fail is Leave of a rank that cannot go on: ranks that wait for it, or come to, are
// told the cause, of which maxCause bytes count.
func (r *Rank) Fail(cause string) {
	if cause = bounded(cause); cause == "" {
		cause = "its client does not say why"
	}
	r.depart(RankFailed, cause, cause)
}

// depart ends the rank's part: as a loss of kind k with the cause running if an operation
// of it runs, else as a departure with the cause idle.
func (r *Rank) depart(k FailureKind, running, idle string) {
	m := r.m
	m.mu.Lock()
	if r.gone {
		m.mu.Unlock()
		return
	}
	r.gone = true
	o := r.last
	runs := false
	if o != nil {
		select {
		case <-o.finished:
		default:
			runs = true
		}
	}
	if !runs {
		m.left++
	}
	m.mu.Unlock()
	if runs {
		r.lost(k, errors.New(running))
		<-m.ctx.Done()
		m.abandon(o)
	} else {
		m.say(message{Kind: kindLeft, Rank: r.rank, Cause: idle})
		m.g.unclaim(r.key, r.hold)
	}
	m.mu.Lock()
	b := m.releaseLocked(r)
	m.mu.Unlock()
	free(b)
}

// lost tells the coordinator, which tells everyone.
func (r *Rank) lost(k FailureKind, cause error) {
	r.m.say(message{Kind: kindLost, Rank: r.rank, Cause: cause.Error(), Failure: &Failure{Kind: k}})
}
