package group

import (
	"context"
	"errors"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// How a member carries out an operation by the coordinator's start message. One that begins before it is in ahead.go.

// start begins the operation for which all ranks are ready.
func (m *member) start(msg message) {
	m.mu.Lock()
	o := m.ops[msg.Seq]
	if o != nil && len(o.inputs) != m.here() && !o.running {
		o = nil
	}
	if o != nil {
		if e := m.sureLocked(o); e != nil {
			m.mu.Unlock()
			if msg.Begun != e.kept.number {
				m.refuse(&msg)
			}
			e.word <- msg // which ends what has begun, and begins anew
			return
		}
		if o.shown {
			m.mu.Unlock()
			m.alarm(message{Kind: kindBroken, Seq: msg.Seq, Cause: "told to begin anew what is over here"})
			return
		}
		if o.running || m.ctx.Err() != nil {
			m.mu.Unlock()
			return
		}
		o.running = true
		m.settleLocked(msg.Seq)
		for _, c := range o.inputs {
			if c.call.Eager {
				m.small.larger()
				break
			}
		}
	}
	m.mu.Unlock()
	if o == nil {
		m.alarm(message{Kind: kindBroken, Seq: msg.Seq, Cause: "start of an operation that not all ranks here asked for"})
		return
	}
	m.refuse(&msg)
	m.launch(o, func() { m.execute(o, msg) })
}

// launch has f complete o in a goroutine of its own.
func (m *member) launch(o *op, f func()) {
	if !m.g.start(f) {
		o.err = ErrClosed
		close(o.finished)
		m.fail(stopped(m.g.cfg.Self))
	}
}

// execute runs this host's part of the operation and completes it.
func (m *member) execute(o *op, msg message) {
	// The coordinator started its clock when the last rank was ready: planning and the
	// way of the start message belong to the operation.
	if msg.Info == nil {
		msg.Info = &Planned{}
		if msg.Collective == Barrier {
			msg.Info.Algorithm = string(Barrier)
		}
	}
	begun := time.Now().Add(-msg.Info.Cost - m.g.cfg.Latency(m.roster[0]))
	m.mu.Lock()
	inputs := o.inputs
	o.inputs = nil
	m.mu.Unlock()
	m.g.shelf.drop(m.kindOf(inputs))
	res, err := m.exchange(m.ctx, o, &msg, inputs, nil)
	if err == nil {
		m.keep(inputs, &msg, time.Since(begun))
	}
	m.complete(o, res, err, begun)
	m.finishRun(o, res)
}

// complete ends an operation that was planned, and that all hosts have begun at the instant begun.
func (m *member) complete(o *op, res *result, err error, begun time.Time) {
	if err == nil {
		res.elapsed = max(0, time.Since(begun))
		done := message{Kind: kindDone, Seq: o.seq}
		done.lazy(bookPause)
		m.say(done)
	} else if m.ctx.Err() == nil {
		msg := message{Kind: kindBroken, Seq: o.seq, Cause: err.Error()}
		var input *inputError
		if errors.As(err, &input) {
			msg = message{Kind: kindLost, Rank: input.rank, Cause: err.Error(), Failure: &Failure{Kind: RankFailed}}
		}
		m.alarm(msg)
		<-m.ctx.Done() // the coordinator tells everyone, us too, in the same words
	}
	if cause := context.Cause(m.ctx); err != nil && cause != nil {
		err = cause
	}
	m.mu.Lock()
	o.inputs, o.result, o.err = nil, res, err
	if res != nil && res.rest != nil {
		o.holders++
		o.through = make(chan struct{})
	}
	m.mu.Unlock()
	close(o.finished)
}

// finishRun waits for the end of what complete has left of a run.
func (m *member) finishRun(o *op, res *result) {
	if res == nil || res.rest == nil {
		return
	}
	if err := <-res.rest; err != nil && m.ctx.Err() == nil {
		m.alarm(message{Kind: kindBroken, Seq: o.seq, Cause: err.Error()})
	}
	m.mu.Lock()
	close(o.through)
	o.through = nil
	b := m.dropLocked(o)
	m.mu.Unlock()
	free(b)
}

// exchange runs this host's part, by the start message msg, with the inputs of its ranks. sure is [Exchange.Sure].
func (m *member) exchange(ctx context.Context, o *op, msg *message, inputs map[int]contribution, sure <-chan struct{}) (*result, error) {
	if msg.Collective == Barrier { // that all have come is all that there is to it
		if err := held(ctx, msg); err != nil {
			return nil, err
		}
		res := &result{views: make(map[int]view), info: *msg.Info}
		for rank := range inputs {
			res.views[rank] = view{}
		}
		return res, nil
	}
	var r *room
	var err error
	if msg.Collective == plan.Alltoall {
		r, err = m.alltoallRoom(o.seq, msg.Rows, inputs)
	} else {
		r, err = m.allgatherRoom(o.seq, msg.Sizes, inputs)
	}
	if err != nil {
		return nil, err
	}
	if err := held(ctx, msg); err != nil {
		r.release()
		return nil, err
	}
	send, results := r.memory()
	landed := make(chan Transferred, 1)
	x := Exchange{
		Part: msg.Part, Hosts: m.hosts, Send: send, Results: results, Layout: r.layout, Sure: sure, Shown: msg.Shown,
		Landed: func(t Transferred) { landed <- t },
		Watch:  func(progress func() (done, total int64)) { o.progress.Store(&progress) },
	}
	var t Transferred
	ended := make(chan error, 1)
	go func() { // waited for below, or by finishRun
		all, err := m.g.cfg.Run(ctx, x)
		r.sent()
		t = all
		ended <- err
	}()
	res := &result{views: r.views, bufs: r.results, info: *msg.Info}
	select {
	case res.transfer = <-landed:
		res.rest = ended
		return res, nil
	case err := <-ended:
		if err != nil {
			r.release()
			return nil, err
		}
	}
	res.transfer = t
	return res, nil
}

// held waits while the others hear of the start, see [coordinator.holds].
func held(ctx context.Context, start *message) error {
	if start.Hold <= 0 {
		return nil
	}
	select {
	case <-time.After(min(start.Hold, maxHold)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
