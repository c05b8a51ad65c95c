package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// defaultAlgorithm is what an operation without an algorithm runs.
const defaultAlgorithm = "min3"

// fallbackAlgorithm needs no map.
const fallbackAlgorithm = "ring"

// plan makes the plan of one allgather from one snapshot and cuts it into parts: the
// coordinator's share of group.Config.
func (a *Agent) plan(ctx context.Context, r group.Request) ([][]byte, group.Planned, error) {
	snap, mapErr := a.waitForMap(ctx, r.Hosts)
	begun := time.Now()
	made, info, err := makePlan(snap, mapErr, r)
	if err != nil {
		return nil, group.Planned{}, err
	}
	parts, err := exchange.Split(made, exchangeID(r.Group, r.Seq), 0, nil)
	if err != nil {
		return nil, group.Planned{}, err
	}
	encoded := make([][]byte, len(parts))
	for i, p := range parts {
		encoded[i] = p.AppendTo(nil)
	}
	info.Cost = time.Since(begun)
	return encoded, info, nil
}

// exchangeID names operation seq of a group on the lanes.
func exchangeID(id group.ID, seq uint64) exchange.ID {
	x := exchange.ID(id)
	for i := range 8 {
		x[8+i] ^= byte(seq >> (8 * i))
	}
	return x
}

// makePlan plans r over snap. Without a complete map (mapErr) the default algorithm
// gives way to a ring; one that was asked for by name does not.
func makePlan(snap *netmap.Snapshot, mapErr error, r group.Request) (*plan.Plan, group.Planned, error) {
	name := r.Algorithm
	if name == "" || name == "auto" {
		name = defaultAlgorithm
		if mapErr != nil {
			name = fallbackAlgorithm
		}
	}
	alg, err := planner.Named(plan.Allgather, name)
	if err != nil {
		return nil, group.Planned{}, err
	}
	if mapErr != nil {
		if name != fallbackAlgorithm {
			return nil, group.Planned{}, fmt.Errorf("%s: %w; wait for the map (gridagent status), or leave the algorithm away", name, mapErr)
		}
		made, err := alg.Make(&planner.Problem{Snapshot: snap, Sizes: r.Sizes})
		if err == nil {
			err = plan.Verify(made, plan.Rules{})
		}
		return made, group.Planned{Algorithm: name, Epoch: snap.Epoch()}, err
	}
	tree, err := pools.Build(snap, pools.Config{})
	if err != nil {
		return nil, group.Planned{}, err
	}
	problem := &planner.Problem{
		Snapshot: snap, Tree: tree, Sizes: r.Sizes,
		Options: planner.Options{Links: min3.Shared}, // real links are
	}
	s, err := planner.Schedule(alg, problem, int64(exchange.DefaultChunk(slices.Max(r.Sizes))))
	if err != nil {
		return nil, group.Planned{}, err
	}
	var rules plan.Rules
	if name == defaultAlgorithm {
		rules.Pools = problem.Clusters()
	}
	if err := plan.Verify(s.Plan, rules); err != nil {
		return nil, group.Planned{}, fmt.Errorf("%s made a plan that is wrong: %w", name, err)
	}
	return s.Plan, group.Planned{
		Algorithm: name,
		Epoch:     snap.Epoch(),
		Bound:     seconds(s.Bound.Seconds),
		Predicted: seconds(s.Sim.Makespan),
	}, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// waitForMap returns a snapshot of the hosts in order, with gaps predicted. The error
// says what is still missing after Options.MapWait.
func (a *Agent) waitForMap(ctx context.Context, hosts []string) (*netmap.Snapshot, error) {
	deadline := time.Now().Add(a.opts.MapWait)
	for {
		snap := a.snapshotOf(hosts)
		err := complete(snap)
		if err == nil || time.Now().After(deadline) {
			return snap, err
		}
		select {
		case <-ctx.Done():
			return snap, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// snapshotOf returns the map of the hosts in order, with gaps predicted.
func (a *Agent) snapshotOf(names []string) *netmap.Snapshot {
	sites := a.sites()
	hosts := make([]netmap.Host, len(names))
	for i, n := range names {
		hosts[i] = netmap.Host{Name: n, Site: sites[n]}
	}
	return netmap.Predict(a.netmap.Snapshot(hosts, time.Now()))
}

// complete reports the first pair that is neither measured nor predicted.
func complete(s *netmap.Snapshot) error {
	missing, first := 0, ""
	for i := range s.N() {
		for j := range s.N() {
			if i != j && !s.Estimate(i, j).Has(netmap.FieldLatency|netmap.FieldBandwidth) {
				if missing++; missing == 1 {
					first = s.Host(i).Name + "→" + s.Host(j).Name
				}
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("the map lacks %d of %d host pairs (%s first): %w", missing, s.N()*(s.N()-1), first, netmap.ErrNotMeasured)
	}
	return nil
}

// run carries out this host's part: the engine's share of group.Config.
func (a *Agent) run(ctx context.Context, x group.Exchange) (group.Transferred, error) {
	part, err := exchange.ParsePart(x.Part)
	if err != nil {
		return group.Transferred{}, err
	}
	if len(part.Hosts) != len(x.Hosts) || part.Hosts[part.Self] != a.name {
		return group.Transferred{}, errors.New("the part is not for this host")
	}
	var progress exchange.Progress
	x.Watch(func() (done, total int64) { return progress.Received.Load(), progress.Incoming.Load() })
	stats, err := a.engine.Run(ctx, part, exchange.Data{
		Result:   x.Data,
		Progress: &progress,
		Layout: func(b exchange.Block) []exchange.Segment {
			segs := x.Segments(b.Origin)
			out := make([]exchange.Segment, len(segs))
			for i, s := range segs {
				out[i] = exchange.Segment(s)
			}
			return out
		},
	})
	if err != nil {
		return group.Transferred{}, err
	}
	var t group.Transferred
	for _, p := range stats.Peers {
		t.Sent += p.Sent
		t.Received += p.Received
	}
	return t, nil
}
