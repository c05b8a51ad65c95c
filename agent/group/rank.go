package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Rank is one local client's place in a group.
type Rank struct {
	m    *member
	rank int
	key  claim
	hold *holding

	// Guarded by m.mu.
	next uint64 // number of its next operation
	held []*op  // begun, in order, whose results it has not dropped
	gone bool
}

// Report tells how an operation went at this host.
type Report struct {
	Planned
	Elapsed time.Duration // from the group's start to this host's completion
	Transferred
	Hosts, Ranks int
}

// A Result is what a rank gets from an operation: the blocks from all ranks, in rank order,
// and their sizes. Data is valid until Release; the file at Path, which there is unless the
// operation was a barrier, until [Operation.Drop], the rank's next [Rank.Do], or Leave.
type Result struct {
	Data   []byte
	Sizes  []int64
	Report Report

	m   *member
	o   *op
	buf Buffer // of Data; nil: there is none
}

// Path returns the file in which Data is, see [Buffer]. It is called before Release.
func (r *Result) Path() (string, error) {
	if r.buf == nil {
		return "", nil
	}
	return r.buf.Path()
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

// Bytes is an [Input] in memory. It must not change any more: it may be sent from where it is, also for a while after its operation.
type Bytes []byte

// Size implements [Input].
func (b Bytes) Size() int64 { return int64(len(b)) }

// CopyTo implements [Input].
func (b Bytes) CopyTo(dst []byte) error {
	copy(dst, b)
	return nil
}

// begin enters the rank into its next operation, with what it contributes and the ready message
// that it is about to send, and completes that. alone says that no other may run, and that the
// results of those before are no longer wanted. then must be called once the message is sent: data are not to stand before it.
func (r *Rank) begin(c contribution, ready *message, alone bool) (o *op, then func(), err error) {
	m := r.m
	then = func() {}
	var old []Buffer
	finish := func() {}
	defer func() { finish(); free(old) }() // after the unlock below: unmapping is I/O
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, nil, m.failed
	}
	if r.gone || m.ctx.Err() != nil {
		return nil, nil, errLeft
	}
	switch running := r.runningLocked(); {
	case alone && running > 0:
		return nil, nil, fmt.Errorf("rank %d: an operation is running already", r.rank)
	case running >= MaxUnderWay:
		return nil, nil, fmt.Errorf("rank %d: %d operations are running already", r.rank, running)
	}
	if alone {
		old = r.dropAllLocked()
	}
	o = m.ops[r.next]
	if o == nil {
		o = &op{seq: r.next, inputs: make(map[int]contribution), finished: make(chan struct{})}
		m.ops[r.next] = o
	}
	r.next++
	r.held = append(r.held, o)
	o.holders++
	ready.Seq, ready.Eager = o.seq, c.eager != nil
	if ready.Eager && m.inHops(ready) {
		ready.Hop = 1
	}
	ready.Keep = m.keeps(ready)
	c.call = *ready
	o.inputs[r.rank] = c
	if ready.Eager {
		finish = m.contributeLocked(r.rank, ready, c.eager)
	}
	if e := m.foreseeLocked(o); e != nil {
		ready.Begun = e.kept.number
		m.pause = m.pauseOf(e)
		m.hurries(&e.kept.start)
		then = func() { m.launch(o, func() { m.ahead(o, e) }) }
	} else if len(o.inputs) == len(m.own) {
		m.pause = 0
	}
	if d := m.pauseLocked(ready); d > 0 {
		ready.lazy(d)
	}
	return o, then, nil
}

var errLeft = errors.New("the rank has left the group")

// runningLocked counts the rank's operations that are not over.
func (r *Rank) runningLocked() (n int) {
	for _, o := range r.held {
		if !o.over() {
			n++
		}
	}
	return n
}

// dropLocked lets go of the result of o, if r still holds it. It returns the buffers to free,
// outside the lock.
func (r *Rank) dropLocked(o *op) []Buffer {
	i := slices.Index(r.held, o)
	if i < 0 {
		return nil
	}
	r.held = slices.Delete(r.held, i, i+1)
	return r.m.dropLocked(o)
}

func (r *Rank) dropAllLocked() (old []Buffer) {
	for len(r.held) > 0 {
		old = append(old, r.dropLocked(r.held[0])...)
	}
	return old
}

// Progress tells how many of the result's bytes have arrived, of the first operation that is not
// over, or else of the last; 0 and 0 if nothing runs.
func (r *Rank) Progress() (done, total int64) {
	r.m.mu.Lock()
	var o *op
	for _, o = range r.held {
		if !o.over() {
			break
		}
	}
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
// as a loss with cause. It returns when the rank's memory is free, but for results that are still on their way to other hosts.
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
	held := slices.Clone(r.held)
	runs := r.runningLocked() > 0
	m.mu.Unlock()
	if runs {
		r.lost(k, errors.New(running))
		<-m.ctx.Done()
		for _, o := range held {
			m.abandon(o)
		}
	} else {
		m.say(message{Kind: kindLeft, Rank: r.rank, Cause: idle})
		m.g.unclaim(r.key, r.hold)
	}
	m.mu.Lock()
	b := r.dropAllLocked()
	m.mu.Unlock()
	free(b)
}

// Cancel ends the group because the rank gives up; every rank gets the same error, with that
// cause. It returns when this host has been told.
func (r *Rank) Cancel(cause error) {
	r.lost(Cancelled, cause)
	<-r.m.ctx.Done()
}

// lost tells the coordinator, which tells everyone.
func (r *Rank) lost(k FailureKind, cause error) {
	r.m.alarm(message{Kind: kindLost, Rank: r.rank, Cause: cause.Error(), Failure: &Failure{Kind: k}})
}
