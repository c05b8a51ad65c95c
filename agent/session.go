package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/api/line"
	"github.com/gridagent/gridagent/agent/group"
)

// maxInputs is how many spooled inputs of a rank wait for their operations: those that can be
// under way, and one for a client that has left one unused.
const maxInputs = line.MaxInputs

const _ uint = maxInputs - (group.MaxUnderWay + 1) // not fewer

// A session is one rank of a local client, from Join until its stream ends.
type session struct {
	agent context.Context // ends with the agent
	rank  *group.Rank
	turns turns

	mu     sync.Mutex // guards the fields below
	ended  bool       // no input is taken any more
	inputs []*spooledInput
}

func newSession(agent context.Context, r *group.Rank) *session {
	return &session{agent: agent, rank: r, turns: newTurns()}
}

// putInput adds a spooled input. Where there are too many, the file of the oldest goes. It
// reports whether the session still lasts; if not, in is the caller's to remove.
func (ss *session) putInput(in *spooledInput) bool {
	ss.mu.Lock()
	if ss.ended {
		ss.mu.Unlock()
		return false
	}
	ss.inputs = append(ss.inputs, in)
	var old *spooledInput
	if len(ss.inputs) > maxInputs {
		old, ss.inputs = ss.inputs[0], slices.Delete(ss.inputs, 0, 1)
	}
	ss.mu.Unlock()
	if old != nil {
		old.remove()
	}
	return true
}

// takeInput hands over a spooled input, which is then the caller's to remove.
func (ss *session) takeInput(path string) (*spooledInput, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	i := slices.IndexFunc(ss.inputs, func(in *spooledInput) bool { return in.f.Name() == path })
	if i < 0 {
		return nil, fmt.Errorf("spool file %q was not made for this rank: ask Spool for one before each operation", path)
	}
	in := ss.inputs[i]
	if err := in.check(); err != nil {
		return nil, err
	}
	ss.inputs = slices.Delete(ss.inputs, i, i+1)
	return in, nil
}

// end takes no further inputs, and removes those that are left.
func (ss *session) end() {
	ss.mu.Lock()
	left := ss.inputs
	ss.inputs, ss.ended = nil, true
	ss.mu.Unlock()
	for _, in := range left {
		in.remove()
	}
}

// contribution returns what a request contributes: the spool file, or data if there is none.
func (ss *session) contribution(data []byte, spool string) (group.Input, error) {
	if spool != "" {
		return ss.takeInput(spool)
	}
	if len(data) > maxInlineInput {
		return nil, fmt.Errorf("inline payload of %d bytes: more than %d go by Spool", len(data), maxInlineInput)
	}
	return group.Bytes(data), nil
}

// A timeoutError means that the caller's time ran out.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string        { return fmt.Sprintf("no result within %v", e.limit) }
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// hangupGrace is how long a call that was cut off waits for the client's Join stream to
// end as well. The kernel closes all sockets of a killed process together.
const hangupGrace = 200 * time.Millisecond

// Why a rank gives up: the client took back one call and holds on to its rank, or had
// set it a deadline.
var (
	errHungUp    = errors.New("its client cancelled the call")
	errCancelled = errors.New("its client cancelled an operation")
	errDeadline  = errors.New("its client's deadline has passed")
)

// operation returns the context of one operation for the call whose context is ctx. A
// client that is killed in the middle ends its Join stream and this call in any
// order; the rank must be reported as lost in both, not as one that gave up.
func (ss *session) operation(ctx context.Context) (op context.Context, done func()) {
	op, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		var ours *timeoutError
		var fault *lineFault
		switch {
		case errors.As(cause, &ours):
		case errors.As(cause, &fault):
		case errors.Is(cause, errDeadline):
		case errors.Is(ctx.Err(), context.DeadlineExceeded): // Connect and gRPC clients send theirs along
			cause = errDeadline
		case ss.agent.Err() != nil: // nobody gave up: the group ends with the agent, and says so
			select {
			case <-ss.rank.Done().Done():
			case <-op.Done():
			}
		default: // whatever the cause
			cause = errHungUp
			select {
			case <-ss.rank.Done().Done():
			case <-op.Done():
			case <-time.After(hangupGrace):
			}
		}
		cancel(cause)
	})
	return op, func() { stop(); cancel(nil) }
}
