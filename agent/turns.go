package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gridagent/gridagent/agent/group"
)

// A turns brings the numbered operations of a rank into their order. Calls arrive over several
// connections, in any order; the ranks of a group must begin the same operations in the same one.
type turns struct {
	slots chan struct{} // one for each operation under way

	mu      sync.Mutex // guards the fields below
	next    uint64
	passed  map[uint64]bool // numbers from next on that have had their turn
	moved   chan struct{}   // closed, and replaced, when next moves
	results map[uint64]*group.Operation
}

func newTurns() turns {
	return turns{
		slots: make(chan struct{}, group.MaxUnderWay), next: 1, passed: make(map[uint64]bool),
		moved: make(chan struct{}), results: make(map[uint64]*group.Operation),
	}
}

// wait returns when it is the turn of number n.
func (t *turns) wait(ctx context.Context, n uint64) error {
	for {
		t.mu.Lock()
		next, moved := t.next, t.moved
		t.mu.Unlock()
		switch {
		case n == next:
			return nil
		case n < next:
			return fmt.Errorf("operation %d has had its turn: the next is %d", n, next)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// over ends the turn of number n, once.
func (t *turns) over(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < t.next {
		return
	}
	t.passed[n] = true
	for t.passed[t.next] {
		delete(t.passed, t.next)
		t.next++
	}
	close(t.moved)
	t.moved = make(chan struct{})
}

// keep holds the result of number n, until drop.
func (t *turns) keep(n uint64, o *group.Operation) {
	t.mu.Lock()
	t.results[n] = o
	t.mu.Unlock()
}

// drop lets go of the results of all numbers below n, and of those in also.
func (t *turns) drop(n uint64, also ...uint64) {
	var old []*group.Operation
	t.mu.Lock()
	for k, o := range t.results {
		if k < n || slices.Contains(also, k) {
			old = append(old, o)
			delete(t.results, k)
		}
	}
	t.mu.Unlock()
	for _, o := range old {
		o.Drop()
	}
}

// run runs the operation of c, in its turn if it has one.
func (ss *session) run(ctx context.Context, c *call) (*group.Result, error) {
	if c.turn == nil {
		return ss.rank.Do(ctx, c.Call)
	}
	o, err := ss.start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { <-ss.turns.slots }()
	return o.Wait(ctx)
}

// start begins the operation of c when its turn has come and there is room; the caller frees
// a slot after it. Whoever gives up in that wait gives the group up, since the operations that
// follow would meet those of other ranks that are not theirs.
func (ss *session) start(ctx context.Context, c *call) (*group.Operation, error) {
	t := &ss.turns
	ending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(ss.rank.Done(), func() { stop(context.Cause(ss.rank.Done())) })()
	err := t.wait(ending, c.turn.Number)
	if err == nil {
		t.drop(c.turn.Taken, c.turn.AlsoTaken...)
		select {
		case t.slots <- struct{}{}:
		case <-ending.Done():
			err = context.Cause(ending)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			ss.rank.Cancel(context.Cause(ctx))
		}
		return nil, err
	}
	o, err := ss.rank.Start(c.Call)
	if err != nil {
		<-t.slots
		return nil, err
	}
	t.keep(c.turn.Number, o)
	t.over(c.turn.Number)
	return o, nil
}
