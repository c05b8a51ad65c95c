package group

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Report tells how an operation went at this host.
type Report struct {
	Planned
	Elapsed time.Duration // from the group's start to this host's completion
	Transferred
	Hosts, Ranks int
}

// A Result is the outcome of an allgather: the ranks' blocks in rank order. Data is
// valid until Release, the file at Path until the rank's next operation or Leave.
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

// An Input is what a rank contributes: so many bytes, copied once, to their place in
// the result.
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
// it in the same order; algorithm is the same at every rank, empty for the default.
// When ctx ends first, the rank is lost to the group: every rank gets the same error.
func (r *Rank) Allgather(ctx context.Context, in Input, algorithm string) (*Result, error) {
	o, err := r.begin(in)
	if err != nil {
		return nil, err
	}
	r.m.say(message{Kind: kindReady, Seq: o.seq, Rank: r.rank, Size: in.Size(), Algorithm: algorithm})
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
	o.holders++
	return &Result{
		Data: res.buf.Bytes(), Path: res.buf.Path(), Sizes: res.sizes, m: r.m, o: o,
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
func (r *Rank) begin(in Input) (*op, error) {
	m := r.m
	var old Buffer
	defer func() { free(old) }() // after the unlock below: unmapping is I/O
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, m.failed
	}
	if r.gone || m.ctx.Err() != nil {
		return nil, errors.New("the rank has left the group")
	}
	if r.last != nil && r.last.result == nil {
		return nil, fmt.Errorf("rank %d: an operation is running already", r.rank)
	}
	old = m.releaseLocked(r)
	o := m.ops[r.next]
	if o == nil {
		o = &op{seq: r.next, inputs: make(map[int]Input), finished: make(chan struct{})}
		m.ops[r.next] = o
	}
	r.next++
	r.last = o
	o.holders++
	o.inputs[r.rank] = in
	return o, nil
}

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
