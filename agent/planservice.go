package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gridagent/gridagent/agent/api/ends"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// PlanCache tells of the plans that are kept, and of what has been learnt.
func (s *service) PlanCache(context.Context, *connect.Request[apiv1.PlanCacheRequest]) (*connect.Response[apiv1.PlanCacheResponse], error) {
	now := time.Now()
	stats := s.a.plans.cache.Stats()
	factor := s.a.plans.factor(now)
	r := &apiv1.PlanCacheResponse{Bytes: uint64(stats.Bytes), Hits: stats.Hits, Misses: stats.Misses}
	for _, kind := range slices.Sorted(maps.Keys(stats.Dropped)) {
		r.Dropped = append(r.Dropped, &apiv1.DropCount{Kind: kind, Count: stats.Dropped[kind]})
	}
	for _, k := range stats.Plans {
		sum := &k.Selection
		p := &apiv1.KeptPlan{
			Collective: string(k.Collective), Algorithm: sum.Algorithm, Asked: k.Asked, Hosts: uint32(k.Hosts), Sites: sum.Class.Sites,
			BlockBytes: uint64(k.Kept.Bytes), BoundSeconds: sum.Bound, PredictedSeconds: sum.Forecast * factor(sum.Class, sum.Algorithm),
			Reason: sum.Reason, Made: timestamppb.New(k.Made), Used: timestamppb.New(k.Used), Hits: k.Hits,
			MemoryBytes: uint64(k.Size), PartBytes: uint64(k.PartBytes), MapEpoch: k.MapEpoch, Aside: k.Aside,
		}
		for _, c := range sum.Candidates {
			p.Candidates = append(p.Candidates, &apiv1.PlanCandidate{Algorithm: c.Algorithm, PredictedSeconds: c.Predicted(), Factor: c.Factor, Why: c.Why})
		}
		r.Plans = append(r.Plans, p)
	}
	for _, d := range stats.Drops {
		r.Drops = append(r.Drops, &apiv1.PlanDrop{
			Time: timestamppb.New(d.Time), Collective: string(d.Collective), Algorithm: d.Algorithm, Hosts: uint32(d.Hosts),
			BlockBytes: uint64(d.Bytes), Kind: d.Kind, Why: d.Why,
		})
	}
	for _, c := range s.a.plans.experience.Corrections(now) {
		fewest, most, least, largest := c.Range()
		r.Corrections = append(r.Corrections, &apiv1.Correction{
			Collective: string(c.Collective), Sites: c.Sites, HostsFrom: uint32(fewest), HostsTo: uint32(most),
			BytesFrom: least, BytesTo: largest, Algorithm: c.Algorithm,
			Factor: c.Factor, Median: c.Median, Samples: uint32(c.Samples), Last: timestamppb.New(c.Last),
		})
	}
	return connect.NewResponse(r), nil
}

// MaxTuneIterations bounds how often each algorithm runs.
const MaxTuneIterations = 100

// Tune runs the candidates over the live grid. See tune.go.
func (s *service) Tune(ctx context.Context, req *connect.Request[apiv1.TuneRequest], stream *connect.ServerStream[apiv1.TuneEvent]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	run, err := s.a.newTuneRun(ctx, req.Msg, stream.Send)
	if err != nil {
		return err
	}
	err = run.run(ctx)
	path, saveErr := s.a.saveExperience() // what was measured before an error is worth as much
	if err != nil {
		if s.ctx.Err() != nil {
			return ends.Error(errors.New("the agent ends"))
		}
		if errors.Is(err, errTuning) {
			return connect.NewError(connect.CodeFailedPrecondition, err)
		}
		return connect.NewError(connect.CodeAborted, err)
	}
	if saveErr != nil {
		return connect.NewError(connect.CodeInternal, saveErr)
	}
	return stream.Send(&apiv1.TuneEvent{Event: &apiv1.TuneEvent_Done{Done: &apiv1.TuneDone{Hosts: uint32(len(run.hosts)), Saved: path}}})
}

// invalid is an error for a request that can never be met.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// tuneHosts returns who takes part, self first. It refuses more than a run may have, and more than planning compares all algorithms for: their
// plans would take too much time and memory.
func tuneHosts(self string, alive []string, m *apiv1.TuneRequest) ([]string, error) {
	asked := m.Hosts
	if len(asked) == 0 {
		asked = alive
	}
	others := slices.DeleteFunc(slices.Clone(asked), func(h string) bool { return h == self })
	slices.Sort(others)
	for i, h := range others {
		if !slices.Contains(alive, h) {
			return nil, invalid("host %.64q: no such host is alive", h)
		}
		if i > 0 && others[i-1] == h {
			return nil, invalid("host %.64q is named twice", h)
		}
	}
	switch n := 1 + len(others); {
	case n < 2:
		return nil, invalid("this host alone has nothing to tune: two at least are needed")
	case n > maxTuneHosts:
		return nil, invalid("%d hosts: want at most %d; name some (--hosts)", n, maxTuneHosts)
	case n > maxCompared && len(m.Algorithms) == 0:
		return nil, invalid("%d hosts: over more than %d not all algorithms are compared; name algorithms (--algorithms), or some of the hosts (--hosts)", n, maxCompared)
	}
	return append([]string{self}, others...), nil
}

// newTuneRun checks what is asked for and finds the candidates.
func (a *Agent) newTuneRun(ctx context.Context, m *apiv1.TuneRequest, say func(*apiv1.TuneEvent) error) (*tuneRun, error) {
	hosts, err := tuneHosts(a.name, a.alive(), m)
	if err != nil {
		return nil, err
	}
	t := &tuneRun{a: a, hosts: hosts, iterations: int(m.Iterations), say: say}
	if t.iterations == 0 {
		t.iterations = 3
	}
	if t.iterations > MaxTuneIterations {
		return nil, invalid("%d iterations: want at most %d", t.iterations, MaxTuneIterations)
	}
	collectives, sizes := m.Collectives, m.Sizes
	if len(collectives) == 0 {
		collectives = []string{string(plan.Allgather), string(plan.Alltoall)}
	}
	if len(sizes) == 0 {
		sizes = defaultTuneSizes
	}
	for _, c := range collectives {
		if c != string(plan.Allgather) && c != string(plan.Alltoall) {
			return nil, invalid("no collective %.32q: want %s or %s", c, plan.Allgather, plan.Alltoall)
		}
		for _, size := range sizes {
			if size > uint64(maxTuneBytes/len(t.hosts)) {
				return nil, invalid("blocks of %d bytes: with %d hosts at most %d", size, len(t.hosts), maxTuneBytes/len(t.hosts))
			}
			if len(t.steps) == maxTuneOps {
				return nil, invalid("more than %d sizes", maxTuneOps)
			}
			step, err := a.rivals(ctx, t.hosts, plan.Collective(c), int64(size), m.Algorithms)
			var unknown *planner.UnknownError
			if errors.As(err, &unknown) {
				return nil, invalid("%w", err)
			}
			if ctx.Err() != nil {
				return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
			}
			if err != nil {
				return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("%s of %d bytes: %w", c, size, err))
			}
			t.steps = append(t.steps, step)
		}
	}
	if ops, _ := t.ops(); len(ops) > maxTuneOps {
		return nil, invalid("%d operations: want at most %d; take fewer sizes, algorithms or iterations", len(ops), maxTuneOps)
	}
	return t, nil
}

// fileExperience keeps what was learnt, in the agent's folder.
const fileExperience = "experience.json"

func (a *Agent) experiencePath() string {
	return filepath.Join(a.opts.Identity.Dir, fileExperience)
}

// openExperience reads what an earlier life of the agent has learnt. A file that is not right is left
// aside, and said so: plans are made without it.
func (a *Agent) openExperience() {
	data, err := os.ReadFile(a.experiencePath())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = a.plans.experience.Read(data, time.Now())
	}
	if err != nil {
		a.log.Warn("what was learnt of earlier operations is not readable, starting without it", "path", a.experiencePath(), "err", err)
	}
}

// saveExperience writes what has been learnt, if anything, and returns where.
func (a *Agent) saveExperience() (string, error) {
	if len(a.plans.experience.Records()) == 0 {
		return a.experiencePath(), nil
	}
	data, err := a.plans.experience.AppendJSON(nil)
	if err != nil {
		return "", err
	}
	return a.experiencePath(), identity.WriteFile(a.experiencePath(), data, 0o600)
}
