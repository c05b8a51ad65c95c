package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gridagent/gridagent/agent/api/ends"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// maxPoolWatchers bounds the streams of WatchPools at a time.
	maxPoolWatchers = 64
	// treeWait is how long Pools waits for a tree of all live hosts once the map has them all.
	treeWait = 3 * time.Second
)

// Pools returns the tree that the agent plans with, or one made for the request. It is
// Unavailable while the map lacks pairs of live hosts, as long as the tree is not of them all.
func (s *service) Pools(ctx context.Context, req *connect.Request[apiv1.PoolsRequest]) (*connect.Response[apiv1.PoolsResponse], error) {
	snap := s.a.snapshotOf(s.a.alive())
	if err := complete(snap); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("no pool tree yet: %w; try again in a few seconds", err))
	}
	if req.Msg.Criterion != "" {
		return poolsOf(snap, pools.Criterion(req.Msg.Criterion))
	}
	t := s.a.pools.fresh(ctx, s.a.alive, treeWait)
	if t.Tree == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("no pool tree yet: the agent is busy with the first; try again in a few seconds"))
	}
	b, err := treeJSON(t.Tree)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.PoolsResponse{
		TreeJson: b, Rendered: t.Tree.String(), Epoch: snap.Epoch(),
		PoolsEpoch: t.Epoch, Reason: t.Reason, Since: timestamppb.New(t.Since), Warnings: t.Warnings,
	}), nil
}

// poolsOf makes a tree of snap.
func poolsOf(snap *netmap.Snapshot, c pools.Criterion) (*connect.Response[apiv1.PoolsResponse], error) {
	tree, err := pools.Build(snap, pools.Config{Criterion: c})
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	b, err := treeJSON(tree)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.PoolsResponse{TreeJson: b, Rendered: tree.String(), Epoch: snap.Epoch()}), nil
}

func treeJSON(t *pools.Tree) ([]byte, error) {
	b, err := json.Marshal(t)
	return bytes.TrimSpace(b), err
}

// poolWatchers counts the streams of WatchPools.
type poolWatchers struct{ n atomic.Int32 }

func (w *poolWatchers) enter() bool {
	if w.n.Add(1) > maxPoolWatchers {
		w.n.Add(-1)
		return false
	}
	return true
}

func (w *poolWatchers) leave() { w.n.Add(-1) }

// WatchPools sends the current tree and each later one, and a tree again when its warnings have
// changed. A stream holds no queue: who reads slowly is sent the newest.
func (s *service) WatchPools(ctx context.Context, _ *connect.Request[apiv1.WatchPoolsRequest], stream *connect.ServerStream[apiv1.PoolsEvent]) error {
	if !s.watchers.enter() {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("%d programs watch the pool tree already", maxPoolWatchers))
	}
	defer s.watchers.leave()
	for {
		state := s.a.pools.current()
		if t := state.tree; t.Tree != nil {
			b, err := treeJSON(t.Tree)
			if err != nil {
				return err
			}
			if err := stream.Send(&apiv1.PoolsEvent{
				Epoch: t.Epoch, Time: timestamppb.New(t.Since), Reason: t.Reason,
				TreeJson: b, Rendered: t.Tree.String(), Warnings: t.Warnings,
			}); err != nil {
				return err
			}
		}
		select {
		case <-state.next:
		case <-ctx.Done(): // when the agent ends, too
			if s.ctx.Err() == nil {
				return ctx.Err()
			}
			return ends.Error(errors.New("the agent ends"))
		case <-s.ctx.Done():
			return ends.Error(errors.New("the agent ends"))
		}
	}
}
