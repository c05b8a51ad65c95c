package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// plan makes the plan of one operation from one snapshot, or takes the one that the ranks
// have brought, and cuts it into parts: the coordinator's share of group.Config.
func (a *Agent) plan(ctx context.Context, r group.Request) ([][]byte, group.Planned, error) {
	var snap *netmap.Snapshot
	var mapErr error
	if r.Plan != nil {
		snap = a.snapshotOf(r.Hosts) // it needs no map: nothing is worth a wait
		mapErr = complete(snap)
	} else {
		snap, mapErr = a.waitForMap(ctx, r.Hosts)
	}
	begun := time.Now()
	made, info, err := planOver(a.shape(snap.Hosts()), snap, mapErr, r)
	if err != nil {
		return nil, group.Planned{}, err
	}
	parts, err := exchange.Split(made, exchangeID(r.Group, r.Seq), chunkOf(made, snap), nil)
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

// What an operation without an algorithm runs: an allgather the first, or what the simulator
// finds fastest where switch trees are declared, an alltoall that always
// (see maxCompared); and without a map the others, which need none.
const (
	allgatherDefault  = "min3"
	allgatherFallback = "ring"
	alltoallFallback  = "shift"
)

// maxCompared is over how many hosts the simulator compares all alltoalls: 20 take 0.03 s,
// 48 take 0.3 s, 96 take 2 s (one core), and it grows faster than the square of the hosts.
// Beyond, the plan is what suits most: aapc on one switch, between pools group-shuffle,
// which bounds how many partners a host has at a time.
const maxCompared = 64

// A shape is what is known of how hosts hang together.
type shape struct {
	tree     *pools.Tree      // of these hosts; nil: to be made from the snapshot
	switches []*plan.Topology // declared, of whole sites
}

// shape returns what this agent knows of hosts.
func (a *Agent) shape(hosts []netmap.Host) shape {
	sh := shape{tree: a.pools.of(hosts)}
	trees, _ := a.switches.current()
	for _, t := range trees {
		sh.switches = append(sh.switches, t.Topology)
	}
	return sh
}

// planOver plans r over snap and the shape of its hosts. Without a complete map
// (mapErr) the default gives way to the fallback; an algorithm that was asked for by name does not.
func planOver(sh shape, snap *netmap.Snapshot, mapErr error, r group.Request) (*plan.Plan, group.Planned, error) {
	options, err := tuning(r.Options)
	if err != nil {
		return nil, group.Planned{}, err
	}
	p := &planner.Problem{Collective: r.Collective, Snapshot: snap, Sizes: r.Sizes, Alltoall: alltoallSizes(r.Matrix), Options: options}
	switch {
	case r.Plan != nil:
		return givenPlan(p, mapErr, r)
	case mapErr != nil:
		return blindPlan(p, mapErr, r.Algorithm)
	}
	if p.Tree = sh.tree; p.Tree == nil {
		if p.Tree, err = pools.Build(snap, pools.Config{}); err != nil {
			return nil, group.Planned{}, err
		}
	}
	if err := p.Declare(sh.switches...); err != nil {
		return nil, group.Planned{}, err
	}
	c, err := choose(p, r.Algorithm)
	if err != nil {
		return nil, group.Planned{}, err
	}
	name := c.Algorithm.Name
	rules := plan.Rules{Chunked: !c.Algorithm.Timed}
	if name == allgatherDefault {
		rules.Pools = p.Clusters()
	}
	if err := plan.Verify(c.Plan, rules); err != nil {
		return nil, group.Planned{}, fmt.Errorf("%s made a plan that is wrong: %w", name, err)
	}
	return c.Plan, group.Planned{
		Algorithm: name,
		Epoch:     snap.Epoch(),
		Bound:     seconds(c.Bound.Seconds),
		Predicted: seconds(c.Sim.Makespan),
	}, nil
}

// choose makes the plan of the named algorithm, or of the default.
func choose(p *planner.Problem, name string) (*planner.Choice, error) {
	chunk := int64(exchange.DefaultChunk(p.LargestBlock()))
	if name == "" || name == planner.Auto {
		switch {
		case p.Collective != plan.Alltoall && p.Topology == nil && len(p.LANs) == 0:
			name = allgatherDefault
		case p.Snapshot.N() <= maxCompared:
			return planner.Choose(p, chunk, nil)
		case p.Collective != plan.Alltoall && p.Topology != nil:
			name = "lr3"
		case p.Collective != plan.Alltoall:
			name = "min3+ring"
		case len(p.Tree.Leaves()) == 1:
			name = "aapc"
		default:
			name = "group-shuffle"
		}
	}
	alg, err := planner.Named(p.Collective, name)
	if err != nil {
		return nil, err
	}
	s, err := planner.Schedule(alg, p, chunk)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &planner.Choice{Algorithm: alg, Scheduled: s, Of: 1}, nil
}

// blindPlan plans p without a map, which lacks what mapErr says.
func blindPlan(p *planner.Problem, mapErr error, name string) (*plan.Plan, group.Planned, error) {
	fallback := allgatherFallback
	if p.Collective == plan.Alltoall {
		fallback = alltoallFallback
	}
	if name == "" || name == planner.Auto {
		name = fallback
	}
	alg, err := planner.Named(p.Collective, name)
	if err != nil {
		return nil, group.Planned{}, err
	}
	if name != fallback {
		return nil, group.Planned{}, fmt.Errorf("%s: %w; wait for the map (gridagent status), or leave the algorithm away", name, mapErr)
	}
	made, err := alg.Make(p)
	if err == nil {
		err = plan.Verify(made, plan.Rules{})
	}
	return made, group.Planned{Algorithm: name, Epoch: p.Snapshot.Epoch()}, err
}

// alltoallSizes is the matrix without its diagonal, as one size where there is only one:
// plans are then smaller.
func alltoallSizes(matrix [][]int64) plan.AlltoallSizes {
	one := int64(-1)
	for i, row := range matrix {
		for j, n := range row {
			switch {
			case i == j:
			case one < 0:
				one = n
			case n != one:
				return plan.AlltoallSizes{Matrix: matrix}
			}
		}
	}
	return plan.AlltoallSizes{Uniform: max(one, 0)}
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

// company is how many hosts at most, beside those of a group, help to predict its pairs.
const company = 64

// snapshotOf returns the map of the hosts in order, with gaps predicted, and with pairs that were
// measured before their link changed corrected by those that were measured since. Other
// hosts' pairs count in both: of two hosts of each of two sites it may be that none has
// measured another, and while an exchange runs nobody will.
func (a *Agent) snapshotOf(names []string) *netmap.Snapshot {
	sites := a.sites()
	in := make(map[string]bool, len(names))
	for _, n := range names {
		in[n] = true
	}
	others := slices.DeleteFunc(a.alive(), func(n string) bool { return in[n] })
	hosts := make([]netmap.Host, 0, len(names)+min(len(others), company))
	group := make([]int, len(names))
	for i, n := range names {
		hosts, group[i] = append(hosts, netmap.Host{Name: n, Site: sites[n]}), i
	}
	for i := range min(len(others), company) {
		n := others[i*len(others)/min(len(others), company)] // of each site its part
		hosts = append(hosts, netmap.Host{Name: n, Site: sites[n]})
	}
	return netmap.Predict(netmap.Freshen(a.netmap.Snapshot(hosts, time.Now()))).Subset(group)
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
	if a.crosses(part.Hosts) {
		defer a.prober.Crosses()()
	}
	var progress exchange.Progress
	x.Watch(func() (done, total int64) { return progress.Received.Load(), progress.Incoming.Load() })
	stats, err := a.engine.Run(ctx, part, exchange.Data{
		Send:     x.Send,
		Results:  x.Results,
		Progress: &progress,
		Layout: func(b exchange.Block) []exchange.Segment {
			segs := x.Layout(b.Block)
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
	return transferred(stats), nil
}

// crosses reports whether any of hosts is of another site than this one, as far as labels tell.
func (a *Agent) crosses(hosts []string) bool {
	sites := a.sites()
	own := sites[a.name]
	return slices.ContainsFunc(hosts, func(h string) bool { return h != a.name && (own == "" || sites[h] != own) })
}

// transferred sums up what the engine counted by peer.
func transferred(stats exchange.Stats) (t group.Transferred) {
	for _, host := range slices.Sorted(maps.Keys(stats.Peers)) {
		p := stats.Peers[host]
		if p.Sent+p.Received+p.Resent == 0 {
			continue // only news went to and fro
		}
		t.Sent += p.Sent
		t.Received += p.Received
		t.Peers = append(t.Peers, group.PeerTraffic{Host: host, Sent: p.Sent, Received: p.Received, Resent: p.Resent})
	}
	return t
}
