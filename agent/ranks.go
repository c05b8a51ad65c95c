package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/group"
)

// Limits of payloads that travel inside a call rather than by shared memory.
const (
	maxInlineInput  = 1 << 20
	maxInlineResult = 16 << 20
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
	ss := &session{rank: r}
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
	ss.mu.Lock()
	old := ss.input
	ss.input, ss.ended = nil, true
	ss.mu.Unlock()
	if old != nil {
		old.remove()
	}
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

func (s *service) Spool(_ context.Context, req *connect.Request[apiv1.SpoolRequest]) (*connect.Response[apiv1.SpoolResponse], error) {
	ss, err := s.session(req.Msg.Job, req.Msg.Rank)
	if err != nil {
		return nil, err
	}
	if req.Msg.Bytes > 1<<46 {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("payload of %d bytes", req.Msg.Bytes))
	}
	f, err := s.a.spool.create("input", int64(req.Msg.Bytes))
	if err != nil {
		return nil, connect.NewError(connect.CodeResourceExhausted, err)
	}
	if in := (&spooledInput{f: f, size: int64(req.Msg.Bytes)}); !ss.putInput(in) {
		in.remove()
		return nil, notJoined(req.Msg.Job, req.Msg.Rank)
	}
	return connect.NewResponse(&apiv1.SpoolResponse{Path: f.Name()}), nil
}

func (s *service) Allgather(ctx context.Context, req *connect.Request[apiv1.AllgatherRequest]) (*connect.Response[apiv1.AllgatherResponse], error) {
	m := req.Msg
	limit, err := duration("timeout", m.TimeoutSeconds)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	ss, err := s.session(m.Job, m.Rank)
	once := err != nil
	if once {
		if m.Ranks == 0 {
			return nil, err
		}
		if ss, err = s.joinOnce(ctx, m, limit); err != nil {
			return nil, err
		}
		defer s.end(m.Job, m.Rank, ss)
		m.InlineResult = true // the file would be gone before the client could open it
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, begun.Add(limit), &timeoutError{limit})
		defer cancel()
	}
	in, err := ss.contribution(m)
	if err != nil {
		if once {
			ss.rank.Fail(err.Error()) // the call is all that the rank had
		}
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if f, ok := in.(*spooledInput); ok {
		defer f.remove()
	}
	algorithm := m.Algorithm
	if algorithm == "auto" {
		algorithm = "" // two spellings of one wish: ranks that mix them do not disagree
	}
	op, done := ss.operation(ctx)
	defer done()
	res, err := ss.rank.Allgather(op, in, algorithm)
	if err != nil {
		// When the call ended the group, this rank is told what all the others are.
		var f *group.Failure
		if op.Err() != nil && errors.As(context.Cause(ss.rank.Done()), &f) {
			err = f
		}
		return nil, apiError(err)
	}
	defer res.Release()
	return reply(res, m.InlineResult)
}

// joinOnce joins for one call, whose limit bounds the wait for the others as well. It is
// the group that ends the wait, not the call's context: so the others learn of it.
func (s *service) joinOnce(ctx context.Context, m *apiv1.AllgatherRequest, limit time.Duration) (*session, error) {
	forming, err := formingLimit(m.FormingTimeoutSeconds)
	if err != nil {
		return nil, err
	}
	if limit > 0 && (forming == 0 || limit < forming) {
		forming = limit
	}
	ss, err := s.join(ctx, m.Job, m.Rank, m.Ranks, group.JoinOptions{Limit: forming})
	if err != nil {
		return nil, s.joinError(err)
	}
	return ss, nil
}

func reply(res *group.Result, inline bool) (*connect.Response[apiv1.AllgatherResponse], error) {
	r := &apiv1.AllgatherResponse{Report: report(res)}
	for _, n := range res.Sizes {
		r.Sizes = append(r.Sizes, uint64(n))
	}
	if !inline {
		r.Spool = res.Path
		return connect.NewResponse(r), nil
	}
	if len(res.Data) > maxInlineResult {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("result of %d bytes: more than %d go by the spool", len(res.Data), maxInlineResult))
	}
	r.Data = bytes.Clone(res.Data) // the memory is gone once the rank leaves
	return connect.NewResponse(r), nil
}

func report(res *group.Result) *apiv1.Report {
	p := res.Report
	r := &apiv1.Report{
		Algorithm: p.Algorithm, Seconds: p.Elapsed.Seconds(), BoundSeconds: p.Bound.Seconds(),
		BytesReceived: uint64(p.Received), BytesSent: uint64(p.Sent),
		Hosts: uint32(p.Hosts), Ranks: uint32(p.Ranks), MapEpoch: p.Epoch,
		PlanSeconds: p.Cost.Seconds(), PredictedSeconds: p.Predicted.Seconds(),
	}
	if p.Bound > 0 {
		r.BoundRatio = r.Seconds / r.BoundSeconds
	}
	return r
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
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return connect.NewError(connect.CodeInvalidArgument, err)
}
