package main

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// answerTime is how long an agent may take to tell what it knows. The slowest answer, the map of
// 1,000 hosts, takes a second or two; an agent that was stopped by a signal, or hangs, takes
// the connection and never answers. Tests have less.
var answerTime = 30 * time.Second

// A silentError says that the agent on this host took a call and did not answer.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("the agent on this host has not answered for %v: it is stopped or hangs, or the host is overloaded; see its log and its process", shortDuration(e.after))
}

// An impatient client bounds the calls that only ask what the agent knows, or have it do what is done at once. What an agent may
// rightly take long for, an exchange or a probe, has limits of its own, and so has leave (its --timeout).
type impatient struct {
	apiv1connect.AgentServiceClient
	limit time.Duration
}

func (c impatient) Status(ctx context.Context, r *connect.Request[apiv1.StatusRequest]) (*connect.Response[apiv1.StatusResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.Status, r)
}

func (c impatient) Members(ctx context.Context, r *connect.Request[apiv1.MembersRequest]) (*connect.Response[apiv1.MembersResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.Members, r)
}

func (c impatient) Map(ctx context.Context, r *connect.Request[apiv1.MapRequest]) (*connect.Response[apiv1.MapResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.Map, r)
}

func (c impatient) MapDiff(ctx context.Context, r *connect.Request[apiv1.MapDiffRequest]) (*connect.Response[apiv1.MapDiffResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.MapDiff, r)
}

func (c impatient) Pools(ctx context.Context, r *connect.Request[apiv1.PoolsRequest]) (*connect.Response[apiv1.PoolsResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.Pools, r)
}

func (c impatient) TokenCreate(ctx context.Context, r *connect.Request[apiv1.TokenCreateRequest]) (*connect.Response[apiv1.TokenCreateResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.TokenCreate, r)
}

func (c impatient) TokenList(ctx context.Context, r *connect.Request[apiv1.TokenListRequest]) (*connect.Response[apiv1.TokenListResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.TokenList, r)
}

func (c impatient) TokenRevoke(ctx context.Context, r *connect.Request[apiv1.TokenRevokeRequest]) (*connect.Response[apiv1.TokenRevokeResponse], error) {
	return within(ctx, c.limit, c.AgentServiceClient.TokenRevoke, r)
}

// within makes one call, and returns a [silentError] when limit has passed. A sooner end of ctx is
// the caller's own affair.
func within[Q, R any](ctx context.Context, limit time.Duration, call func(context.Context, *connect.Request[Q]) (*connect.Response[R], error), r *connect.Request[Q]) (*connect.Response[R], error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= limit {
		return call(ctx, r)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := call(limited, r)
	// The agent is told of the limit and may see it first.
	if connect.CodeOf(err) == connect.CodeDeadlineExceeded && ctx.Err() == nil {
		return nil, &silentError{limit}
	}
	return reply, err
}
