package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
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
	turn        *apiv1.Turn
	kept        bool // the result is in a file, which the client opens
	group.Call
}

// An answer is what their responses have in common.
type answer struct {
	data   []byte
	spool  string
	sizes  []uint64
	report *apiv1.Report
}

func (s *service) Allgather(ctx context.Context, req *connect.Request[apiv1.AllgatherRequest]) (*connect.Response[apiv1.AllgatherResponse], error) {
	a, err := s.operate(ctx, allgatherCall(req.Msg))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.AllgatherResponse{Data: a.data, Spool: a.spool, Sizes: a.sizes, Report: a.report}), nil
}

func allgatherCall(m *apiv1.AllgatherRequest) *call {
	return &call{
		job: m.Job, rank: m.Rank, ranks: m.Ranks, data: m.GetData(), spool: m.GetSpool(), turn: m.Turn,
		timeout: m.TimeoutSeconds, forming: m.FormingTimeoutSeconds, inline: m.InlineResult,
		Call: group.Call{Collective: plan.Allgather, Wish: group.Wish{Algorithm: m.Algorithm, Plan: m.PlanJson}},
	}
}

func (s *service) Alltoall(ctx context.Context, req *connect.Request[apiv1.AlltoallRequest]) (*connect.Response[apiv1.AlltoallResponse], error) {
	a, err := s.operate(ctx, alltoallCall(req.Msg))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.AlltoallResponse{Data: a.data, Spool: a.spool, Sizes: a.sizes, Report: a.report}), nil
}

func alltoallCall(m *apiv1.AlltoallRequest) *call {
	c := group.Call{Collective: plan.Alltoall, Wish: group.Wish{Algorithm: m.Algorithm, Plan: m.PlanJson}}
	if o := m.Options; o != nil {
		c.Options = group.Options{
			Sync: o.Sync, SyncBlock: int(o.SyncBlock), Within: o.Within, SyncStrict: o.SyncStrict, Fanout: int(o.Fanout),
		}
	}
	c.Sizes = make([]int64, len(m.Sizes))
	for i, n := range m.Sizes {
		c.Sizes[i] = int64(min(n, math.MaxInt64)) // what is too much is refused below
	}
	return &call{
		job: m.Job, rank: m.Rank, ranks: m.Ranks, data: m.GetData(), spool: m.GetSpool(), turn: m.Turn,
		timeout: m.TimeoutSeconds, forming: m.FormingTimeoutSeconds, inline: m.InlineResult, Call: c,
	}
}

func (s *service) Broadcast(ctx context.Context, req *connect.Request[apiv1.BroadcastRequest]) (*connect.Response[apiv1.BroadcastResponse], error) {
	a, err := s.operate(ctx, broadcastCall(req.Msg))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.BroadcastResponse{Data: a.data, Spool: a.spool, Size: a.sizes[req.Msg.Root], Report: a.report}), nil
}

func broadcastCall(m *apiv1.BroadcastRequest) *call {
	return &call{
		job: m.Job, rank: m.Rank, ranks: m.Ranks, data: m.GetData(), spool: m.GetSpool(), turn: m.Turn,
		timeout: m.TimeoutSeconds, forming: m.FormingTimeoutSeconds, inline: m.InlineResult,
		Call: group.Call{Collective: group.Broadcast, Root: int(m.Root), Wish: group.Wish{Algorithm: m.Algorithm, Plan: m.PlanJson}},
	}
}

func (s *service) Barrier(ctx context.Context, req *connect.Request[apiv1.BarrierRequest]) (*connect.Response[apiv1.BarrierResponse], error) {
	a, err := s.operate(ctx, barrierCall(req.Msg))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.BarrierResponse{Report: a.report}), nil
}

func barrierCall(m *apiv1.BarrierRequest) *call {
	return &call{
		job: m.Job, rank: m.Rank, ranks: m.Ranks, turn: m.Turn, timeout: m.TimeoutSeconds, forming: m.FormingTimeoutSeconds,
		Call: group.Call{Collective: group.Barrier, Wish: group.Wish{Options: group.Options{Together: m.Together}}},
	}
}

// check refuses what needs no group to be seen.
func (c *call) check() error {
	w := &c.Wish
	if w.Algorithm == planner.Auto {
		w.Algorithm = "" // two spellings of one wish: ranks that mix them do not disagree
	}
	if len(w.Plan) == 0 {
		w.Plan = nil
	}
	switch {
	case w.Plan != nil && w.Algorithm != "":
		return fmt.Errorf("algorithm %q and a plan: give one of the two", w.Algorithm)
	case len(w.Plan) > group.MaxPlan:
		return fmt.Errorf("plan of %d bytes: at most %d", len(w.Plan), group.MaxPlan)
	}
	for i, n := range c.Sizes {
		if n > 1<<50 {
			return fmt.Errorf("a block of %d bytes for rank %d", n, i)
		}
	}
	switch {
	case c.Collective == plan.Alltoall:
		return checkOptions(w)
	case w.Algorithm != "":
		_, err := planner.Asked(plan.Allgather, w.Algorithm)
		return err
	}
	return nil
}

// operate is carryOut with an answer that lasts.
func (s *service) operate(ctx context.Context, c *call) (a *answer, err error) {
	err = s.carryOut(ctx, c, func(res *group.Result) (err error) {
		if a, err = reply(res, c); err == nil {
			a.data = bytes.Clone(a.data)
		}
		return err
	})
	return a, err
}

// carryOut runs one operation of a rank, which joins for it if it has not. What answer is given of the result is valid until it returns.
func (s *service) carryOut(ctx context.Context, c *call, answer func(*group.Result) error) error {
	limit, err := duration("timeout", c.timeout)
	if err == nil {
		if wrong := c.check(); wrong != nil {
			err = connect.NewError(connect.CodeInvalidArgument, wrong)
		}
	}
	ss, none := s.session(c.job, c.rank)
	if ss != nil && c.turn != nil {
		defer ss.turns.over(c.turn.Number) // however it ends
	}
	if err != nil {
		return err
	}
	begun := time.Now()
	once := ss == nil
	if once {
		if c.ranks == 0 {
			return none
		}
		if n := len(c.Sizes); n > 0 && n != int(c.ranks) { // the others would be waited for in vain
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("it gives %d sizes of blocks for %d ranks", n, c.ranks))
		}
		if ss, err = s.joinOnce(ctx, c, limit); err != nil {
			return err
		}
		defer s.end(c.job, c.rank, ss)
		c.inline = true // the file would be gone before the client could open it
		c.turn = nil
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
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if f, ok := in.(*spooledInput); ok {
		defer f.remove()
	}
	c.In = in
	op, done := ss.operation(ctx)
	defer done()
	res, err := ss.run(op, c)
	if err != nil {
		// When the call ended the group, this rank is told what all the others are.
		var f *group.Failure
		if op.Err() != nil && errors.As(context.Cause(ss.rank.Done()), &f) {
			err = f
		}
		return apiError(err)
	}
	defer res.Release()
	if err := answer(res); err != nil || c.kept {
		return err
	}
	if c.turn != nil {
		ss.turns.drop(0, c.turn.Number) // however long an operation before it takes
	}
	return nil
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

// reply returns the answer to c. Its data are the result's.
func reply(res *group.Result, c *call) (*answer, error) {
	a := &answer{report: report(res)}
	for _, n := range res.Sizes {
		a.sizes = append(a.sizes, uint64(n))
	}
	if !c.inline && (c.turn == nil || len(res.Data) > int(min(c.turn.InlineLimit, maxInlineResult))) {
		path, err := res.Path()
		if err != nil {
			return nil, connect.NewError(connect.CodeResourceExhausted, err)
		}
		a.spool, c.kept = path, true
		return a, nil
	}
	if len(res.Data) > maxInlineResult {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("result of %d bytes: more than %d go by the spool", len(res.Data), maxInlineResult))
	}
	a.data = res.Data
	return a, nil
}

func report(res *group.Result) *apiv1.Report {
	p := res.Report
	r := &apiv1.Report{
		Algorithm: p.Algorithm, Seconds: p.Elapsed.Seconds(), BoundSeconds: p.Bound.Seconds(),
		BytesReceived: uint64(p.Received), BytesSent: uint64(p.Sent),
		Hosts: uint32(p.Hosts), Ranks: uint32(p.Ranks), MapEpoch: p.Epoch,
		PlanSeconds: p.Cost.Seconds(), PredictedSeconds: p.Predicted.Seconds(), PlanGiven: p.Given,
		PlanReason: p.Reason, PlanCached: p.Cached, DirectBoundSeconds: p.Direct.Seconds(),
	}
	r.Replanned, r.BytesGiven, r.BytesHelped, r.BytesDuplicate = uint32(p.Replanned), uint64(p.TakenOver), uint64(p.Helped), uint64(p.Duplicates)
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
