package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A service answers the local API. The groups' part of it is in ranks.go and collectives.go.
type service struct {
	a   *Agent
	ctx context.Context // ends with the agent's Run

	watchers poolWatchers

	mu    sync.Mutex // guards ranks
	ranks map[rankKey]*session
}

// maxRequest bounds a request: an inline payload and a plan, both in base64, and their frame.
const maxRequest = 24 << 20

func (a *Agent) newService(ctx context.Context) http.Handler {
	s := &service{a: a, ctx: ctx, ranks: make(map[rankKey]*session)}
	mux := http.NewServeMux()
	// Nothing is compressed: both ends are on this host, and gzip took 6 to 8 % of the CPU time of small operations.
	opts := []connect.HandlerOption{connect.WithReadMaxBytes(maxRequest), connect.WithCompressMinBytes(math.MaxInt)}
	mux.Handle(apiv1connect.NewAgentServiceHandler(s, opts...))
	mux.Handle(apiv1connect.NewPlannerServiceHandler(s, opts...))
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET "+line.Path, s.line)
	return mux
}

func (s *service) Status(context.Context, *connect.Request[apiv1.StatusRequest]) (*connect.Response[apiv1.StatusResponse], error) {
	a := s.a
	set := a.opts.Identity.Settings
	k := a.current()
	measured, predicted, total := coverage(k.snap)
	r := &apiv1.StatusResponse{
		Version: a.opts.Version, Cluster: set.Cluster, Host: a.name, Site: set.Site,
		Address: a.advertise.String(), Authority: a.opts.Identity.Authority != nil,
		Started: timestamppb.New(a.started), MembersAlive: uint32(k.snap.N()), MapEpoch: k.epoch,
		PairsMeasured: uint32(measured), PairsPredicted: uint32(predicted), PairsTotal: uint32(total),
		ProbeBytes: uint64(a.prober.Stats().Bytes), RefusedGossip: a.members.Stats().Refused,
	}
	a.refused.mu.Lock()
	r.RefusedConnections = a.refused.count
	a.refused.mu.Unlock()
	r.SocketReceiveBuffer, r.SocketSendBuffer = socketBuffers(a.socket)
	r.ProbeCost = probeCost(a.prober.Cost())
	r.PoolsEpoch = a.pools.current().tree.Epoch
	r.MapBytesSent, r.MapBytesReceived = a.mapSync.Bytes()
	r.Prediction = a.predictions.test(k, time.Now())
	r.Warnings = a.Warnings()
	r.LaneMode, r.Lanes, r.UdpSegmentation = a.opts.Lane, a.laneStates(), a.segments
	if a.listener != nil {
		r.TcpAddress = a.listener.Addr().String()
	}
	for _, g := range a.groups.Status() {
		gs := &apiv1.GroupStatus{Job: g.Job, Ranks: uint32(g.Ranks), State: g.State}
		for _, rank := range g.LocalRanks {
			gs.LocalRanks = append(gs.LocalRanks, uint32(rank))
		}
		r.Groups = append(r.Groups, gs)
	}
	return connect.NewResponse(r), nil
}

func probeCost(c probe.Cost) *apiv1.ProbeCost {
	out := &apiv1.ProbeCost{Share: c.Share, BytesPerHourCap: uint64(c.HourlyCap), BytesLastHour: uint64(c.LastHour)}
	for _, l := range c.Links {
		out.Links = append(out.Links, &apiv1.LinkCost{
			FromSite: l.From, ToSite: l.To, CapacityMbps: l.Capacity.Mbps(), BytesLastHour: uint64(l.LastHour),
		})
	}
	return out
}

// duration converts seconds as a client gave them; what names them in the error. What
// does not fit a time.Duration, 292 years, is cut to that.
func duration(what string, seconds float64) (time.Duration, error) {
	switch d := seconds * float64(time.Second); {
	case !(d >= 0): // NaN too
		return 0, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s of %g seconds: want 0 or more", what, seconds))
	case d >= math.MaxInt64:
		return math.MaxInt64, nil
	case d > 0 && d < 1:
		return 1, nil // 0 would mean the default
	default:
		return time.Duration(d), nil
	}
}

// coverage counts the ordered pairs with a measured bandwidth, those that could be
// predicted, and all.
func coverage(s *netmap.Snapshot) (measured, predicted, total int) {
	p := netmap.Predict(s)
	for i := range s.N() {
		for j := range s.N() {
			if i == j {
				continue
			}
			total++
			switch {
			case s.Estimate(i, j).Has(netmap.FieldBandwidth):
				measured++
			case p.Estimate(i, j).Has(netmap.FieldBandwidth):
				predicted++
			}
		}
	}
	return measured, predicted, total
}

func (s *service) Members(context.Context, *connect.Request[apiv1.MembersRequest]) (*connect.Response[apiv1.MembersResponse], error) {
	r := &apiv1.MembersResponse{}
	for _, m := range s.a.members.Members() {
		if m.State == membership.Left {
			continue // kept so as not to count it as lost, but no member
		}
		r.Members = append(r.Members, &apiv1.Member{
			Name: m.Name, Site: m.Site, Address: m.Addr.String(), State: m.State.String(),
			Authority: m.HoldsCA, Self: m.Name == s.a.name,
			RttSeconds: 2 * s.a.latencyFrom(m.Name).Seconds(),
		})
	}
	return connect.NewResponse(r), nil
}

func (s *service) Map(_ context.Context, req *connect.Request[apiv1.MapRequest]) (*connect.Response[apiv1.MapResponse], error) {
	k := s.a.current()
	snap := netmap.Freshen(k.snap)
	measured, _, total := coverage(k.snap)
	if req.Msg.Predict {
		snap = netmap.Predict(snap)
	}
	b, err := netmap.AppendMatrix(nil, snap, time.Now())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.MapResponse{
		MatrixJson: b, Epoch: k.epoch, PairsMeasured: uint32(measured), PairsTotal: uint32(total), Lanes: s.a.laneStates(),
		LinksUnseen: uint32(s.a.linksUnseen(k.snap, time.Now())),
	}), nil
}

func (s *service) Leave(context.Context, *connect.Request[apiv1.LeaveRequest]) (*connect.Response[apiv1.LeaveResponse], error) {
	time.AfterFunc(50*time.Millisecond, s.a.Leave) // after the answer
	return connect.NewResponse(&apiv1.LeaveResponse{}), nil
}

// tokens returns the store of join tokens, or an error that says where it is.
func (s *service) tokens() (*identity.Tokens, error) {
	if s.a.opts.Identity.Authority == nil {
		where := "the host that made the cluster"
		if h := s.a.authorityHost(); h != "" {
			where = "host " + h
		}
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("join tokens are kept where the cluster's authority lives: run this on %s", where))
	}
	return s.a.opts.Identity.Tokens()
}

func (s *service) TokenCreate(_ context.Context, req *connect.Request[apiv1.TokenCreateRequest]) (*connect.Response[apiv1.TokenCreateResponse], error) {
	ts, err := s.tokens()
	if err != nil {
		return nil, err
	}
	ttl, err := duration("life of the token", req.Msg.TtlSeconds)
	if err != nil {
		return nil, err
	}
	if ttl == 0 {
		ttl = identity.DefaultTokenTTL
	}
	t, err := ts.Create(ttl, int(req.Msg.Uses), time.Now(), rand.Reader)
	if err != nil {
		return nil, tokenError(connect.CodeInvalidArgument, err)
	}
	list, err := ts.List()
	if err != nil {
		return nil, tokenError(connect.CodeInternal, err)
	}
	r := &apiv1.TokenCreateResponse{Token: t.String()}
	for _, i := range list {
		if i.ID == t.ID.String() {
			r.Info = tokenInfo(i)
		}
	}
	return connect.NewResponse(r), nil
}

func (s *service) TokenList(context.Context, *connect.Request[apiv1.TokenListRequest]) (*connect.Response[apiv1.TokenListResponse], error) {
	ts, err := s.tokens()
	if err != nil {
		return nil, err
	}
	list, err := ts.List()
	if err != nil {
		return nil, tokenError(connect.CodeInternal, err)
	}
	r := &apiv1.TokenListResponse{}
	for _, i := range list {
		r.Tokens = append(r.Tokens, tokenInfo(i))
	}
	return connect.NewResponse(r), nil
}

func (s *service) TokenRevoke(_ context.Context, req *connect.Request[apiv1.TokenRevokeRequest]) (*connect.Response[apiv1.TokenRevokeResponse], error) {
	ts, err := s.tokens()
	if err != nil {
		return nil, err
	}
	if err := ts.Revoke(req.Msg.Id); err != nil {
		code := connect.CodeInternal
		if errors.Is(err, identity.ErrTokenUnknown) {
			code = connect.CodeNotFound
		}
		return nil, tokenError(code, err)
	}
	return connect.NewResponse(&apiv1.TokenRevokeResponse{}), nil
}

// tokenError gives err the code, unless the file of the tokens is what is wrong.
func tokenError(code connect.Code, err error) error {
	if errors.Is(err, identity.ErrTokensBroken) {
		code = connect.CodeFailedPrecondition
	}
	return connect.NewError(code, err)
}
