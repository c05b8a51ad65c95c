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
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// Limits of payloads that travel inside a call rather than by shared memory.
const (
	maxInlineInput  = 1 << 20
	maxInlineResult = 16 << 20
)

// A call is what the requests for all collectives have in common.
type call struct {
	job         string
	rank, ranks uint32
	data        []byte
	spool       string // in place of data
	timeout     float64
	forming     float64
	inline      bool
	run         func(ctx context.Context, r *group.Rank, in group.Input) (*group.Result, error)
}

// An answer is what their responses have in common.
type answer struct {
	data   []byte
	spool  string
	sizes  []uint64
	report *apiv1.Report
}

func (s *service) Allgather(ctx context.Context, req *connect.Request[apiv1.AllgatherRequest]) (*connect.Response[apiv1.AllgatherResponse], error) {
	m := req.Msg
	w, err := newWish(m.Algorithm, m.PlanJson)
	if err != nil {
		return nil, err
	}
	if w.Algorithm != "" {
		if _, err := planner.Named(plan.Allgather, w.Algorithm); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	a, err := s.operate(ctx, &call{
		job: m.Job, rank: m.Rank, ranks: m.Ranks, data: m.GetData(), spool: m.GetSpool(),
		timeout: m.TimeoutSeconds, forming: m.FormingTimeoutSeconds, inline: m.InlineResult,
		run: func(ctx context.Context, r *group.Rank, in group.Input) (*group.Result, error) {
			return r.Allgather(ctx, in, w)
		},
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.AllgatherResponse{Data: a.data, Spool: a.spool, Sizes: a.sizes, Report: a.report}), nil
}

func (s *service) Alltoall(ctx context.Context, req *connect.Request[apiv1.AlltoallRequest]) (*connect.Response[apiv1.AlltoallResponse], error) {
	m := req.Msg
	w, err := newWish(m.Algorithm, m.PlanJson)
	if err != nil {
		return nil, err
	}
	if o := m.Options; o != nil {
		w.Options = group.Options{
			Sync: o.Sync, SyncBlock: int(o.SyncBlock), Within: o.Within, SyncStrict: o.SyncStrict, Fanout: int(o.Fanout),
		}
	}
	if err := checkOptions(&w); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	sizes := make([]int64, len(m.Sizes))
	for i, n := range m.Sizes {
		if n > 1<<50 {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("a block of %d bytes for rank %d", n, i))
		}
		sizes[i] = int64(n)
	}
	a, err := s.operate(ctx, &call{
		job: m.Job, rank: m.Rank, ranks: m.Ranks, data: m.GetData(), spool: m.GetSpool(),
		timeout: m.TimeoutSeconds, forming: m.FormingTimeoutSeconds, inline: m.InlineResult,
		run: func(ctx context.Context, r *group.Rank, in group.Input) (*group.Result, error) {
			return r.Alltoall(ctx, in, sizes, w)
		},
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.AlltoallResponse{Data: a.data, Spool: a.spool, Sizes: a.sizes, Report: a.report}), nil
}

// newWish returns what a request asks for.
func newWish(algorithm string, plan []byte) (group.Wish, error) {
	w := group.Wish{Algorithm: algorithm}
	if algorithm == "auto" {
		w.Algorithm = "" // two spellings of one wish: ranks that mix them do not disagree
	}
	switch {
	case len(plan) == 0:
		return w, nil
	case w.Algorithm != "":
		return w, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("algorithm %q and a plan: give one of the two", algorithm))
	case len(plan) > group.MaxPlan:
		return w, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("plan of %d bytes: at most %d", len(plan), group.MaxPlan))
	}
	w.Plan = plan
	return w, nil
}

// operate runs one operation of a rank, which joins for it if it has not.
func (s *service) operate(ctx context.Context, c *call) (*answer, error) {
	limit, err := duration("timeout", c.timeout)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	ss, err := s.session(c.job, c.rank)
	once := err != nil
	if once {
		if c.ranks == 0 {
			return nil, err
		}
		if ss, err = s.joinOnce(ctx, c, limit); err != nil {
			return nil, err
		}
		defer s.end(c.job, c.rank, ss)
		c.inline = true // the file would be gone before the client could open it
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, begun.Add(limit), &timeoutError{limit})
		defer cancel()
	}
	in, err := ss.contribution(c.data, c.spool)
	if err != nil {
		if once {
			ss.rank.Fail(err.Error()) // the call is all that the rank had
		}
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if f, ok := in.(*spooledInput); ok {
		defer f.remove()
	}
	op, done := ss.operation(ctx)
	defer done()
	res, err := c.run(op, ss.rank, in)
	if err != nil {
		// When the call ended the group, this rank is told what all the others are.
		var f *group.Failure
		if op.Err() != nil && errors.As(context.Cause(ss.rank.Done()), &f) {
			err = f
		}
		return nil, apiError(err)
	}
	defer res.Release()
	return reply(res, c.inline)
}

// joinOnce joins for one call, whose limit bounds the wait for the others as well. It is
// the group that ends the wait, not the call's context: so the others learn of it.
func (s *service) joinOnce(ctx context.Context, c *call, limit time.Duration) (*session, error) {
	forming, err := formingLimit(c.forming)
	if err != nil {
		return nil, err
	}
	if limit > 0 && (forming == 0 || limit < forming) {
		forming = limit
	}
	ss, err := s.join(ctx, c.job, c.rank, c.ranks, group.JoinOptions{Limit: forming})
	if err != nil {
		return nil, s.joinError(err)
	}
	return ss, nil
}

func reply(res *group.Result, inline bool) (*answer, error) {
	a := &answer{report: report(res)}
	for _, n := range res.Sizes {
		a.sizes = append(a.sizes, uint64(n))
	}
	if !inline {
		a.spool = res.Path
		return a, nil
	}
	if len(res.Data) > maxInlineResult {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("result of %d bytes: more than %d go by the spool", len(res.Data), maxInlineResult))
	}
	a.data = bytes.Clone(res.Data) // the memory is gone once the rank leaves
	return a, nil
}

func report(res *group.Result) *apiv1.Report {
	p := res.Report
	r := &apiv1.Report{
		Algorithm: p.Algorithm, Seconds: p.Elapsed.Seconds(), BoundSeconds: p.Bound.Seconds(),
		BytesReceived: uint64(p.Received), BytesSent: uint64(p.Sent),
		Hosts: uint32(p.Hosts), Ranks: uint32(p.Ranks), MapEpoch: p.Epoch,
		PlanSeconds: p.Cost.Seconds(), PredictedSeconds: p.Predicted.Seconds(), PlanGiven: p.Given,
	}
	for _, peer := range p.Peers {
		r.Peers = append(r.Peers, &apiv1.PeerTraffic{
			Host: peer.Host, BytesSent: uint64(peer.Sent), BytesReceived: uint64(peer.Received), BytesResent: uint64(peer.Resent),
		})
	}
	if p.Bound > 0 {
		r.BoundRatio = r.Seconds / r.BoundSeconds
	}
	return r
}
