package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange/lane"
)

// maxSign bounds a join request or its answer on the way between two members.
const maxSign = 1 << 20

// openAdmission lets new hosts in: it answers join requests, here or by way of the
// host that holds the authority.
func (a *Agent) openAdmission() {
	opened := time.Now()
	a.admit = &identity.Server{
		Identity: a.opts.Identity,
		Live:     a.members.Live,
		Unmet: func(name string) bool {
			m, ok := a.members.Member(name)
			return ok && unmet(m, time.Since(opened))
		},
		Members: func() []string {
			var out []string
			for _, m := range a.members.Members() {
				if m.State == membership.Alive {
					out = append(out, m.Addr.String())
				}
			}
			return out
		},
		Forward: a.forwardJoin,
		Holder:  a.authorityHost,
		Log:     a.log,
	}
	if ts, err := a.opts.Identity.Tokens(); err == nil { // else the authority is elsewhere
		if _, err := ts.List(); err != nil {
			a.log.Warn("no host can be let in", "err", err)
		}
	}
	a.endpoint.HandleStreams(lane.StreamJoin, a.admit.Handle)
	a.endpoint.HandleStreams(lane.StreamSign, a.serveSign)
}

// meeting is how long after its start a host may not have met all that are alive: gossip takes seconds, re-joining members that did not answer at once a while.
const meeting = 2 * time.Minute

// unmet reports whether m, remembered from an earlier run, may be alive although nothing was heard of it since the agent started.
func unmet(m membership.Member, since time.Duration) bool {
	return m.State == membership.Unseen && since < meeting
}

// authorityHost names the member that holds the authority, the first if several say so, "" if none is alive.
func (a *Agent) authorityHost() string {
	if holders := a.members.Holders(); len(holders) > 0 {
		return holders[0]
	}
	return ""
}

// maxHolders bounds how many hosts a request is forwarded to: each sees the token's secret.
const maxHolders = 3

// forwardTime is how long all of them together have to answer, somewhat less than the joining host waits.
const forwardTime = 15 * time.Second

// forwardJoin has another host, which holds the authority, decide a request that reached this one.
func (a *Agent) forwardJoin(ctx context.Context, req identity.JoinRequest) (identity.JoinResponse, error) {
	holders := slices.DeleteFunc(a.members.Holders(), func(name string) bool { return name == a.name })
	return firstToKnow(ctx, holders, func(ctx context.Context, holder string) (identity.JoinResponse, error) {
		return a.askHolder(ctx, holder, req)
	})
}

// firstToKnow returns the answer of the first of holders that answers and knows the token; else that of one which does not know it. A host that says that it holds the
// authority need not have the tokens, or be right.
func firstToKnow(ctx context.Context, holders []string, ask func(ctx context.Context, holder string) (identity.JoinResponse, error)) (resp identity.JoinResponse, err error) {
	if len(holders) == 0 {
		return resp, errors.New("no member that holds the cluster's authority is alive")
	}
	holders = holders[:min(maxHolders, len(holders))]
	var failed []error
	for _, h := range holders {
		short, cancel := context.WithTimeout(ctx, forwardTime/time.Duration(len(holders)))
		r, err := ask(short, h)
		cancel()
		switch {
		case err != nil:
			failed = append(failed, err)
		case r.Refused == nil || r.Refused.Code != identity.RefusedUnknown:
			return r, nil
		default:
			resp = r
		}
	}
	if resp.Refused == nil {
		return resp, errors.Join(failed...)
	}
	return resp, nil
}

// askHolder has holder decide a request.
func (a *Agent) askHolder(ctx context.Context, holder string, req identity.JoinRequest) (identity.JoinResponse, error) {
	var resp identity.JoinResponse
	s, err := a.endpoint.Open(ctx, holder, 0, lane.StreamSign)
	if err != nil {
		return resp, err
	}
	defer s.Abort()
	defer context.AfterFunc(ctx, s.Abort)()
	b, err := json.Marshal(req)
	if err != nil {
		return resp, err
	}
	if _, err := s.Write(b); err != nil {
		return resp, err
	}
	if err := s.Close(); err != nil {
		return resp, err
	}
	b, err = io.ReadAll(io.LimitReader(s, maxSign))
	if err != nil {
		return resp, fmt.Errorf("answer of %s: %w", holder, err)
	}
	return resp, json.Unmarshal(b, &resp)
}

// serveSign decides a request that another member forwards.
func (a *Agent) serveSign(ctx context.Context, s *lane.Stream) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, s.Abort)()
	b, err := io.ReadAll(io.LimitReader(s, maxSign))
	var req identity.JoinRequest
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(b)).Decode(&req)
	}
	if err != nil || a.opts.Identity.Authority == nil {
		a.log.Warn("forwarded join request refused", "peer", s.Peer.Name, "authority", a.opts.Identity.Authority != nil, "err", err)
		s.Abort()
		return
	}
	if b, err = json.Marshal(a.admit.Decide(ctx, req)); err == nil {
		_, err = s.Write(b)
	}
	if err != nil {
		s.Abort()
		return
	}
	s.Close()
}

func tokenInfo(t identity.TokenInfo) *apiv1.Token {
	out := &apiv1.Token{
		Id: t.ID, Created: timestamppb.New(t.Created), Expires: timestamppb.New(t.Expires),
		Unlimited: t.MaxUses == 0, Revoked: t.Revoked,
	}
	if t.MaxUses > t.Uses {
		out.UsesLeft = uint32(t.MaxUses - t.Uses)
	}
	return out
}
