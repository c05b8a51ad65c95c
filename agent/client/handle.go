package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// An Operation is a handle on one of a rank's operations. Its methods may be called concurrently.
type Operation struct {
	r         *Rank
	cancel    context.CancelFunc
	cancelled atomic.Bool
	done      chan struct{} // closed when res and err are set
	res       *Result
	err       error
}

// Done is closed when the operation is over, well or not.
func (o *Operation) Done() <-chan struct{} { return o.done }

// Test reports whether the operation is over: then Wait returns at once.
func (o *Operation) Test() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// Wait returns the result when the operation is over, the same one whenever it is called: one
// Close is enough. When ctx ends first, the operation goes on.
func (o *Operation) Wait(ctx context.Context) (*Result, error) {
	select {
	case <-o.done:
		return o.res, o.err
	default:
	}
	select {
	case <-o.done:
		return o.res, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Cancel ends the operation if it is not over, and with it the group: to give up at one rank
// what the others go on with would leave them waiting. Every rank gets the same [*GroupError], of
// kind cancelled, as Wait does here.
func (o *Operation) Cancel() {
	o.cancelled.Store(true)
	o.cancel()
}

// cancelGrace is how long an operation that was cancelled waits to be told so by the group.
const cancelGrace = 5 * time.Second

// outcome tells the agent of a Cancel, which may not have heard of the operation yet, and returns
// the words that all ranks get. An operation behind one that was given up so early ends like it;
// ctx is what the caller gave.
func (o *Operation) outcome(ctx context.Context, err error) error {
	cause := context.Cause(o.r.numbers.ctx)
	behind := ctx.Err() == nil && cause != nil && !errors.Is(cause, errClosed)
	var ge *GroupError
	if err == nil || errors.As(err, &ge) || !o.cancelled.Load() && !behind {
		return err
	}
	if o.cancelled.Load() {
		ctx, stop := context.WithTimeout(context.Background(), cancelGrace)
		defer stop()
		// Where it fails, the group is over, or the agent is gone.
		_, _ = o.r.c.api.Cancel(ctx, connect.NewRequest(&apiv1.CancelRequest{Job: o.r.job, Rank: o.r.rank}))
	}
	if ge := o.r.failure(cancelGrace); ge != nil {
		return ge
	}
	return err
}

// The operations of a rank are numbered as they are started, so that they begin in that order
// whatever the order in which their calls reach the agent.
type numbers struct {
	mu    sync.Mutex // guards the fields below
	next  uint64
	open  map[uint64]bool            // whose results have not been taken
	low   uint64                     // the lowest of open, or next
	waits map[uint64][]chan struct{} // by what low must be: closed when it is
	freed []uint64                   // whose results have been, since the agent was told
	tasks sync.WaitGroup             // a goroutine for each that is not over
	ctx   context.Context            // of all
	stop  context.CancelCauseFunc
}

func newNumbers() *numbers {
	n := &numbers{next: 1, low: 1, open: make(map[uint64]bool), waits: make(map[uint64][]chan struct{})}
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	return n
}

const (
	// maxAhead is how many operations of a rank the agent is asked for at once, from the lowest that is not over. The agent ends a line with
	// more than its own bound, and counts those whose answers are on their way.
	maxAhead = line.MaxAsked / 4
	// maxHandedOver is the same for those with a spool file.
	maxHandedOver = line.MaxInputs - 1
)

// room returns when number n is one of the first so many from the lowest open one on. That takes at most limit, if it is not 0: room returns what is left of it.
func (ns *numbers) room(ctx context.Context, n, many uint64, limit time.Duration) (left time.Duration, err error) {
	ns.mu.Lock()
	if n < ns.low+many {
		ns.mu.Unlock()
		return limit, nil
	}
	due := make(chan struct{})
	ns.waits[n-many+1] = append(ns.waits[n-many+1], due)
	ns.mu.Unlock()
	var late <-chan time.Time
	begun := time.Now()
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-due:
	case <-ctx.Done():
		return 0, ended(ctx)
	case <-late:
		return 0, connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("no result within %v: %w", limit, context.DeadlineExceeded))
	}
	if limit > 0 {
		limit = max(limit-time.Since(begun), time.Millisecond) // 0 would be no limit
	}
	return limit, nil
}

// close takes number n from those that are open, and lets those go on that wait for it. It needs mu.
func (ns *numbers) close(n uint64) {
	delete(ns.open, n)
	for ns.low < ns.next && !ns.open[ns.low] {
		ns.low++
		for _, due := range ns.waits[ns.low] {
			close(due)
		}
		delete(ns.waits, ns.low)
	}
}

// start runs t in a goroutine that ends with the operation, with ctx, or with the rank.
func (r *Rank) start(ctx context.Context, t *task) *Operation {
	callers := ctx
	ctx, cancel := context.WithCancel(ctx)
	o := &Operation{r: r, cancel: cancel, done: make(chan struct{})}
	if err := errors.Join(t.wrong, t.opts.check()); err != nil {
		return o.refuse(err)
	}
	ns := r.numbers
	ns.mu.Lock()
	n := ns.next
	ns.next++
	ns.open[n] = true
	ns.tasks.Add(1)
	ns.mu.Unlock()
	go func() {
		defer ns.tasks.Done()
		defer cancel()
		defer context.AfterFunc(ns.ctx, cancel)()
		o.res, o.err = r.run(ctx, n, t)
		o.err = o.outcome(callers, o.err)
		close(o.done)
	}()
	return o
}

// refuse is the end of an operation that never began.
func (o *Operation) refuse(err error) *Operation {
	o.cancel()
	o.err = err
	close(o.done)
	return o
}

// do is start and Wait.
func (r *Rank) do(ctx context.Context, t *task) (*Result, error) {
	return r.start(ctx, t).Wait(context.Background()) // which ends with ctx
}

// turn is what operation n tells the agent of its place, and of the results that have been taken.
func (r *Rank) turn(n uint64) *apiv1.Turn {
	ns := r.numbers
	ns.mu.Lock()
	defer ns.mu.Unlock()
	also := slices.DeleteFunc(ns.freed, func(f uint64) bool { return f < ns.low })
	ns.freed = nil
	return &apiv1.Turn{Number: n, Taken: ns.low, InlineLimit: maxInline, AlsoTaken: also}
}

// taken says that the result of number n has been taken, if it left a file.
func (r *Rank) taken(n uint64, file bool) {
	ns := r.numbers
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.close(n)
	if file {
		ns.freed = append(ns.freed, n)
	}
}

// missed says that the agent never heard of number n. If it was the last, the next operation
// takes its place. Those behind it cannot: in their place the other ranks will have another.
func (r *Rank) missed(n uint64, err error) {
	ns := r.numbers
	ns.mu.Lock()
	last := ns.next == n+1
	if last {
		ns.next = n
	}
	ns.close(n) // now: as soon as it is unlocked another operation may have the number
	ns.mu.Unlock()
	if !last {
		r.broken(err)
	}
}

// broken ends the operations that follow one of which nobody knows whether the agent has heard:
// it would wait for it for ever.
func (r *Rank) broken(err error) {
	r.numbers.stop(fmt.Errorf("an operation that was started before this one has no outcome: %w", err))
}
