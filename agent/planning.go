package agent

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/packed"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// plan makes the plan of one operation from one snapshot, or takes one that is kept, or the one that
// the ranks have brought, and cuts it into parts: the coordinator's share of group.Config.
func (a *Agent) plan(ctx context.Context, r group.Request) ([][]byte, group.Planned, error) {
	begun := time.Now()
	id := exchangeID(r.Group, r.Seq)
	if r.Ahead {
		if err := a.offerable(r); err != nil {
			return nil, group.Planned{}, err
		}
	}
	if parts, info, ok := a.planKept(id, r, begun); ok {
		info.Cost = time.Since(begun)
		return parts, info, nil
	}
	var snap *netmap.Snapshot
	var mapErr error
	if r.Plan != nil {
		snap = a.snapshotOf(r.Hosts) // it needs no map: nothing is worth a wait
		mapErr = complete(snap)
	} else {
		snap, mapErr = a.waitForMap(ctx, r.Hosts)
	}
	begun = time.Now()
	d, err := decide(a.shape(snap), snap, mapErr, r, a.plans.factor(begun))
	if err != nil {
		return nil, group.Planned{}, err
	}
	parts, err := exchange.Split(d.plan, id, ChunkOf(d.plan, snap), nil)
	if err != nil {
		return nil, group.Planned{}, err
	}
	exchange.Weigh(parts, sitesIn(snap))
	encoded := make([][]byte, len(parts))
	for i, p := range parts {
		encoded[i] = p.AppendTo(nil)
	}
	if d.selection != nil {
		a.keep(id, r, d, encoded, snap, begun)
	}
	d.info.Cost = time.Since(begun)
	return encoded, d.info, nil
}

// sitesIn returns where the hosts of snap stand.
func sitesIn(snap *netmap.Snapshot) func(host string) string {
	sites := make(map[string]string, snap.N())
	for _, h := range snap.Hosts() {
		sites[h.Name] = h.Site
	}
	return func(host string) string { return sites[host] }
}

// exchangeID names operation seq of a group on the lanes.
func exchangeID(id group.ID, seq uint64) exchange.ID {
	x := exchange.ID(id)
	for i := range 8 {
		x[8+i] ^= byte(seq >> (8 * i))
	}
	return x
}

// What an operation without an algorithm runs where there is no map: what needs none.
const (
	allgatherFallback = "ring"
	alltoallFallback  = "shift"
)

// maxCompared is over how many hosts all algorithms are compared: the time that takes grows faster
// than the square of the hosts. Beyond, the plan is what suits most (see large).
const maxCompared = 128

// A shape is what is known of how hosts hang together.
type shape struct {
	name     string           // [Agent.shapeName] of it
	tree     *pools.Tree      // of these hosts; nil: to be made from the snapshot
	switches []*plan.Topology // declared, of whole sites
}

// shape returns what this agent knows of the hosts of snap.
func (a *Agent) shape(snap *netmap.Snapshot) shape {
	pool := a.pools.current()
	trees, _ := a.switches.current()
	sh := shape{name: nameShape(pool, trees), tree: pool.of(snap.Hosts())}
	for _, t := range trees {
		sh.switches = append(sh.switches, t.over(snap))
	}
	return sh
}

// shapeName names the pool tree and the declared switch trees that plans stand on now.
func (a *Agent) shapeName() string {
	trees, _ := a.switches.current()
	return nameShape(a.pools.current(), trees)
}

func nameShape(pool poolState, trees []siteTree) string {
	h := fnv.New64a()
	for _, t := range trees {
		h.Write(binary.BigEndian.AppendUint64(nil, t.digest))
	}
	return fmt.Sprintf("pool tree %d and %d switch trees (%04x)", pool.tree.Epoch, len(trees), h.Sum64()&0xffff)
}

// A decision is a plan that has been verified, and what led to it.
type decision struct {
	plan      *plan.Plan
	info      group.Planned
	shape     string             // [shape.name]
	selection *planner.Selection // nil without a map, and for a plan that the ranks have brought
	class     planner.Spot       // with a selection
}

// planOver is decide without experience.
func planOver(sh shape, snap *netmap.Snapshot, mapErr error, r group.Request) (*plan.Plan, group.Planned, error) {
	d, err := decide(sh, snap, mapErr, r, nil)
	return d.plan, d.info, err
}

// problemOf is what r asks for, without a map.
func problemOf(r group.Request) (*planner.Problem, error) {
	options, err := tuning(r.Options)
	return &planner.Problem{Collective: r.Collective, Sizes: r.Sizes, Alltoall: alltoallSizes(r.Matrix), Options: options, Ahead: r.Ahead}, err
}

// completeProblem is problemOf r over snap, which is complete, and the shape of its hosts.
func completeProblem(sh shape, snap *netmap.Snapshot, r group.Request) (*planner.Problem, error) {
	p, err := problemOf(r)
	if err != nil {
		return nil, err
	}
	p.Snapshot = snap
	if p.Tree = sh.tree; p.Tree == nil {
		if p.Tree, err = pools.Build(snap, pools.Config{}); err != nil {
			return nil, err
		}
	}
	return p, p.Declare(sh.switches...)
}

// decide plans r over snap and the shape of its hosts. Without a complete map
// (mapErr) the default gives way to the fallback; an algorithm that was asked for by name does not.
// factor, if not nil, corrects what is expected of algorithms.
func decide(sh shape, snap *netmap.Snapshot, mapErr error, r group.Request, factor func(planner.Spot, string) float64) (d decision, err error) {
	p, err := problemOf(r)
	if err != nil {
		return d, err
	}
	p.Snapshot = snap
	switch {
	case r.Plan != nil:
		d.plan, d.info, err = givenPlan(p, mapErr, r)
		return d, err
	case mapErr != nil:
		d.plan, d.info, err = blindPlan(p, mapErr, r.Algorithm)
		return d, err
	}
	if p, err = completeProblem(sh, snap, r); err != nil {
		return d, err
	}
	d.shape, d.class = sh.name, planner.SpotOf(p)
	var advice planner.Advice
	if factor != nil {
		advice.Factor = func(algorithm string) float64 { return factor(d.class, algorithm) }
	}
	c, err := choose(p, r.Algorithm, advice)
	if err != nil {
		return d, err
	}
	name := c.Algorithm.Name
	rules := plan.Rules{Chunked: !c.Algorithm.Timed}
	if name == "min3" || name == packed.Name {
		rules.Pools = p.Clusters()
	}
	if err := plan.Verify(c.Plan, rules); err != nil {
		return d, fmt.Errorf("%s made a plan that is wrong: %w", name, err)
	}
	d.plan, d.selection = c.Plan, c
	d.info = group.Planned{
		Algorithm: name,
		Epoch:     snap.Epoch(),
		Bound:     seconds(c.Bound.Seconds),
		Direct:    seconds(c.Direct.Seconds),
		Predicted: seconds(c.Taken.Predicted()),
		Reason:    c.Reason(),
	}
	return d, nil
}

// choose makes the plan of the named algorithm, or of the one that is expected to be the fastest.
func choose(p *planner.Problem, name string, advice planner.Advice) (*planner.Selection, error) {
	chunk := int64(exchange.ForecastChunk(p.LargestBlock()))
	if name == "" || name == planner.Auto {
		if p.Snapshot.N() <= maxCompared {
			return planner.Select(p, chunk, advice)
		}
		name = large(p)
	}
	alg, err := planner.Asked(p.Collective, name)
	if err != nil {
		return nil, err
	}
	c, err := planner.SelectNamed(alg, p, chunk, advice)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// large names the algorithm for more hosts than are compared: on one switch tree the ones
// that are optimal there, between pools those that fill the links between them.
func large(p *planner.Problem) string {
	one := len(p.Clusters()) == 1
	switch {
	case p.Collective != plan.Alltoall && one:
		return "lr3"
	case p.Collective != plan.Alltoall:
		return packed.Name
	case one:
		return "aapc"
	}
	return wan.Name
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
	alg, err := planner.Asked(p.Collective, name)
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
