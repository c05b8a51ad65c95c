package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/ends"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/group"
)

type rankKey struct {
	job  string
	rank uint32
}

// Join implements the service. The stream is the client's life line: when it ends, the
// rank leaves, or is lost if an operation of it runs.
func (s *service) Join(ctx context.Context, req *connect.Request[apiv1.JoinRequest], out *connect.ServerStream[apiv1.GroupEvent]) error {
	m := req.Msg
	limit, err := formingLimit(m.FormingTimeoutSeconds)
	if err != nil {
		return err
	}
	waiting := newLatest[*apiv1.Waiting]()
	type joined struct {
		ss  *session
		err error
	}
	result := make(chan joined, 1)
	go func() {
		ss, err := s.join(ctx, m.Job, m.Rank, m.Ranks, group.JoinOptions{Limit: limit, Waiting: func(present int, missing string) {
			waiting.put(&apiv1.Waiting{RanksPresent: uint32(present), Missing: missing})
		}})
		result <- joined{ss, err}
	}()
	var ss *session
	for ss == nil {
		select {
		case w := <-waiting.c:
			// A failed send means that the client is gone: ctx ends too.
			_ = out.Send(&apiv1.GroupEvent{Event: &apiv1.GroupEvent_Waiting{Waiting: w}})
		case j := <-result:
			if j.err != nil {
				return s.joinError(j.err)
			}
			ss = j.ss
		}
	}
	defer s.end(m.Job, m.Rank, ss)
	err = out.Send(&apiv1.GroupEvent{Event: &apiv1.GroupEvent_Formed{Formed: &apiv1.Formed{Hosts: ss.rank.Hosts()}}})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		if s.ctx.Err() == nil {
			return context.Cause(ctx) // to a client that has gone
		}
		// The agent stops, and its groups with it: the client is there and is told so.
		<-ss.rank.Done().Done()
	case <-ss.rank.Done().Done():
	}
	return apiError(context.Cause(ss.rank.Done()))
}

// joinError is apiError for a Join: when the agent stops, the call's own context may
// have ended before the groups could say why.
func (s *service) joinError(err error) error {
	var f *group.Failure
	if s.ctx.Err() != nil && !errors.As(err, &f) {
		err = group.ErrClosed
	}
	return apiError(err)
}

// latest is a channel that holds the newest value that nobody has received yet.
type latest[T any] struct{ c chan T }

func newLatest[T any]() latest[T] { return latest[T]{make(chan T, 1)} }

// put replaces what is there. It has one caller at a time.
func (l latest[T]) put(v T) {
	select {
	case <-l.c:
	default:
	}
	l.c <- v
}

// defaultForming is how long ranks wait for the others unless they say otherwise.
const defaultForming = 10 * time.Minute

// formingLimit converts what a client says of its wait for the others; 0 is no limit.
func formingLimit(seconds float64) (time.Duration, error) {
	switch {
	case seconds == 0:
		return defaultForming, nil
	case seconds < 0:
		return 0, nil
	}
	return duration("forming timeout", seconds)
}

func (s *service) join(ctx context.Context, job string, rank, ranks uint32, opts group.JoinOptions) (*session, error) {
	r, err := s.a.groups.Join(ctx, job, int(rank), int(ranks), opts)
	if err != nil {
		return nil, err
	}
	ss := newSession(s.ctx, r)
	s.mu.Lock()
	s.ranks[rankKey{job, rank}] = ss
	s.mu.Unlock()
	return ss, nil
}

// end gives a rank up because its client ended it or is gone.
func (s *service) end(job string, rank uint32, ss *session) {
	s.mu.Lock()
	if k := (rankKey{job, rank}); s.ranks[k] == ss {
		delete(s.ranks, k)
	}
	s.mu.Unlock()
	ss.rank.Leave("its client ended or was killed")
	ss.end()
}

func (s *service) session(job string, rank uint32) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.ranks[rankKey{job, rank}]
	if ss == nil {
		return nil, notJoined(job, rank)
	}
	return ss, nil
}

func notJoined(job string, rank uint32) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("rank %d has not joined job %q on this host, or its group is over", rank, job))
}

// Fail implements the service: the rank's place is given up at once, and its life line
// has nothing more to say.
func (s *service) Fail(_ context.Context, req *connect.Request[apiv1.FailRequest]) (*connect.Response[apiv1.FailResponse], error) {
	ss, err := s.session(req.Msg.Job, req.Msg.Rank)
	if err != nil {
		return nil, err
	}
	ss.rank.Fail(req.Msg.Cause)
	return connect.NewResponse(&apiv1.FailResponse{}), nil
}

// Cancel implements the service.
func (s *service) Cancel(_ context.Context, req *connect.Request[apiv1.CancelRequest]) (*connect.Response[apiv1.CancelResponse], error) {
	ss, err := s.session(req.Msg.Job, req.Msg.Rank)
	if err != nil {
		return nil, err
	}
	ss.rank.Cancel(errCancelled)
	return connect.NewResponse(&apiv1.CancelResponse{}), nil
}

func (s *service) Spool(_ context.Context, req *connect.Request[apiv1.SpoolRequest]) (*connect.Response[apiv1.SpoolResponse], error) {
	ss, err := s.session(req.Msg.Job, req.Msg.Rank)
	if err != nil {
		return nil, err
	}
	if req.Msg.Bytes > 1<<46 {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("payload of %d bytes", req.Msg.Bytes))
	}
	f, err := s.a.spool.create("input", int64(req.Msg.Bytes), false)
	if err != nil {
		return nil, connect.NewError(connect.CodeResourceExhausted, err)
	}
	if in := (&spooledInput{f: f, size: int64(req.Msg.Bytes)}); !ss.putInput(in) {
		in.remove()
		return nil, notJoined(req.Msg.Job, req.Msg.Rank)
	}
	return connect.NewResponse(&apiv1.SpoolResponse{Path: f.Name()}), nil
}

func (s *service) Progress(_ context.Context, req *connect.Request[apiv1.ProgressRequest]) (*connect.Response[apiv1.ProgressResponse], error) {
	ss, err := s.session(req.Msg.Job, req.Msg.Rank)
	if err != nil {
		return nil, err
	}
	done, total := ss.rank.Progress()
	r := &apiv1.ProgressResponse{BytesDone: uint64(done), BytesTotal: uint64(total), State: "waiting"}
	if total > 0 {
		r.State = "running"
	}
	return connect.NewResponse(r), nil
}

// apiError gives an error the code and the detail that clients branch on.
func apiError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return connect.NewError(connect.CodeCanceled, errors.New("the group has ended"))
	}
	var f *group.Failure
	switch {
	case errors.As(err, &f):
		e := connect.NewError(connect.CodeAborted, f)
		detail, detailErr := connect.NewErrorDetail(&apiv1.Failure{Kind: string(f.Kind), Rank: int32(f.Rank), Host: f.Host, Cause: f.Cause})
		if detailErr == nil {
			e.AddDetail(detail)
		}
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	case errors.Is(err, group.ErrClosed):
		return ends.Error(err)
	}
	return connect.NewError(connect.CodeInvalidArgument, err)
}
