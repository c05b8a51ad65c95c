package treetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// latency is the one-way delay between hosts of all trees here, ports and switches aside.
const latency = 100 * time.Microsecond

// tree makes a tree of 100 Mbit/s: switches s0, s1 … with the given numbers of hosts, and
// cables between them.
func tree(t *testing.T, cables [][2]int, hosts ...int) *plan.Topology {
	t.Helper()
	var switches, names []string
	var home []int
	for s, k := range hosts {
		switches = append(switches, fmt.Sprintf("s%d", s))
		for range k {
			home = append(home, s)
			names = append(names, fmt.Sprintf("n%d", len(names)))
		}
	}
	topo, err := plan.NewTopology(switches, cables, names, home, 100*netmap.Mbps)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// chain cables the switches of the given numbers of hosts one behind the other.
func chain(t *testing.T, hosts ...int) *plan.Topology {
	t.Helper()
	var cables [][2]int
	for s := 1; s < len(hosts); s++ {
		cables = append(cables, [2]int{s - 1, s})
	}
	return tree(t, cables, hosts...)
}

// A claim is what an algorithm says of the links of any tree.
type claim uint8

const (
	nothing claim = iota
	orderly       // no two messages are on one directed link at a time, and so the engine runs it
	phased        // the same of the messages of a phase; the engine does not keep phases apart
)

// A ground is where plans run: a switch tree, or a grid of sites.
type ground struct {
	hosts []string
	topo  *plan.Topology   // nil for a grid
	snap  *netmap.Snapshot // what probes would say while nothing else runs
	tree  *pools.Tree      // of snap
	pools [][]int          // hosts of each switch or site that has any
}

// An algorithm makes a plan for a ground. Blocks are of one size or of their own.
type algorithm struct {
	name  string
	claim claim // of trees only
	trees bool  // works on trees only
	make  func(g *ground, sizes blockSizes) (*plan.Plan, error)
}

// blockSizes are those of an allgather and of an alltoall over the same hosts.
type blockSizes struct {
	gather []int64
	all    plan.AlltoallSizes
}

func uniform(n int, size int64) blockSizes {
	return blockSizes{slices.Repeat([]int64{size}, n), plan.AlltoallSizes{Uniform: size}}
}

// algorithms lists what is tested, those first whose messages do not meet: connections that
// have lost packets begin the next exchange with small windows.
func algorithms() []algorithm {
	var list []algorithm
	for _, kind := range []ring.Kind{ring.KindLR1, ring.KindLR2, ring.KindLR3} {
		list = append(list, algorithm{string(kind), orderly, true, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return ring.Allgather(g.topo, kind, s.gather)
		}})
	}
	for _, a := range []struct {
		name  string
		claim claim
		opt   phase.Options
	}{
		{"receiver", orderly, phase.Options{Sync: phase.Receiver}},
		{"barrier", orderly, phase.Options{Sync: phase.Barrier}},
		{"dummy", phased, phase.Options{Sync: phase.Dummy}},
		{"sender", phased, phase.Options{Sync: phase.Sender}}, // its data may still be on the way
		{"sender by 2", phased, phase.Options{Sync: phase.Sender, Block: 2}},
		{"receiver by 2", phased, phase.Options{Sync: phase.Receiver, Block: 2}},
		{"strict receiver by 2", phased, phase.Options{Sync: phase.Receiver, Block: 2, Strict: true}},
		{"barrier by 4", phased, phase.Options{Sync: phase.Barrier, Block: 4}},
		{"barrier by 4, sender", phased, phase.Options{Sync: phase.Barrier, Block: 4, Within: phase.Sender}},
		{"barrier by 4, order", phased, phase.Options{Sync: phase.Barrier, Block: 4, Within: phase.Order}},
		{"order", phased, phase.Options{Sync: phase.Order}},
		{"none", phased, phase.Options{}},
	} {
		list = append(list, algorithm{"aapc " + a.name, a.claim, true, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return phase.Schedule(g.topo, s.all, a.opt)
		}})
	}
	list = append(list, []algorithm{
		{"min3", nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return min3.Schedule(g.snap, g.tree, s.gather, min3.Options{})
		}},
		{"min3 on shared links", nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return min3.Schedule(g.snap, g.tree, s.gather, min3.Options{Links: min3.Shared})
		}},
		{"mpich-g2", nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return baseline.MPICHG2(g.hosts, s.gather, g.tree)
		}},
		{"broadcast-trees", nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return baseline.BroadcastTrees(g.snap, g.tree, s.gather, baseline.TreeOptions{})
		}},
	}...)
	for _, a := range []struct {
		name string
		make func([]string, []int64) (*plan.Plan, error)
	}{
		{"ring", baseline.Ring}, {"recursive-doubling", baseline.RecursiveDoubling}, {"bruck", baseline.Bruck},
		{"neighbour-exchange", baseline.NeighbourExchange}, {"spreading-simple", baseline.SpreadingSimple}, {"simple", baseline.Simple},
	} {
		list = append(list, algorithm{"allgather " + a.name, nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return a.make(g.hosts, s.gather)
		}})
	}
	list = append(list, algorithm{"allgather magpie", nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
		return baseline.MagPIe(g.hosts, s.gather, g.pools)
	}})
	for _, a := range []struct {
		name string
		make func([]string, plan.AlltoallSizes) (*plan.Plan, error)
	}{
		{"shift", shuffle.Shift}, {"pairwise", shuffle.Pairwise}, {"sync-shuffle", shuffle.Synchronous},
		{"group-shuffle by 3", func(h []string, s plan.AlltoallSizes) (*plan.Plan, error) { return shuffle.Group(h, s, 3) }},
		{"simple", baseline.AlltoallSimple}, {"spreading-simple", baseline.AlltoallSpreadingSimple},
		{"bruck", baseline.AlltoallBruck}, {"ring", baseline.AlltoallRing}, {"pairwise-mpich", baseline.AlltoallPairwise},
	} {
		list = append(list, algorithm{"alltoall " + a.name, nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
			return a.make(g.hosts, s.all)
		}})
	}
	return append(list, algorithm{"alltoall hierarchical", nothing, false, func(g *ground, s blockSizes) (*plan.Plan, error) {
		return baseline.AlltoallHierarchical(g.hosts, s.all, g.pools)
	}})
}

// applies reports whether a has to make a plan on g: some refuse, and say so.
func (a *algorithm) applies(g *ground) bool {
	switch a.name {
	case "lr2":
		return len(ring.Breakers(g.topo)) == 0
	case "allgather neighbour-exchange":
		return len(g.hosts)%2 == 0 || len(g.hosts) == 1
	}
	return true
}

// plan makes the plan and holds a to its claim. It returns nil where a need not make one and does not.
func (a *algorithm) plan(t *testing.T, g *ground, sizes blockSizes) *plan.Plan {
	t.Helper()
	if a.trees && g.topo == nil {
		return nil
	}
	p, err := a.make(g, sizes)
	if (err == nil) != a.applies(g) {
		t.Fatalf("%s on %d hosts: %v", a.name, len(g.hosts), err)
	}
	if err != nil {
		return nil
	}
	var rules plan.Rules
	if a.claim != nothing {
		rules.Topology = g.topo
	}
	if p.Algorithm == "min3" {
		rules.Duplex, rules.Snapshot = plan.FullDuplex, g.snap
	}
	if err := plan.Verify(p, rules); err != nil {
		t.Fatalf("%s: %v", a.name, err)
	}
	return p
}

// onTree returns the ground of a switch tree.
func onTree(t *testing.T, topo *plan.Topology) *ground {
	t.Helper()
	rate, _ := topo.Bandwidth()
	n := len(topo.Hosts())
	hosts := make([]netmap.Host, n)
	of := make([][]int, len(topo.Switches()))
	for h, name := range topo.Hosts() {
		hosts[h] = netmap.Host{Name: name}
		of[topo.Home(h)] = append(of[topo.Home(h)], h)
	}
	e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: latency, Bandwidth: rate}
	g := &ground{
		hosts: topo.Hosts(), topo: topo,
		snap:  netmap.NewSnapshot(1, hosts, slices.Repeat([]netmap.Estimate{e}, n*n)),
		pools: slices.DeleteFunc(of, func(p []int) bool { return p == nil }),
	}
	var err error
	if g.tree, err = pools.Build(g.snap, pools.Config{}); err != nil {
		t.Fatal(err)
	}
	return g
}
