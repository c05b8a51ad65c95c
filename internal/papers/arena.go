package main

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// An arena is a network on which collectives are compared.
type arena struct {
	name  string
	title string // for a person

	// One of both.
	topology *plan.Topology
	grid     *gridfile.Grid

	ports int // packets that each port of its switches holds in the emulation; 0 where it has no switch tree

	problem planner.Problem // of its hosts, without collective and sizes
	network *plan.Network   // what the simulator is told
}

// treeLatency is the one-way latency between hosts of a switch tree, beside what ports
// and switches take to store a packet: two network stacks.
const treeLatency = 50 * time.Microsecond

// packetBytes are the IP bytes of a full packet of quic-go without path MTU discovery.
const packetBytes = 1308

// onTree returns the arena of a switch tree. Beside the latency every switch after the
// sender's port stores a packet before it sends it on, which [plan.NetworkOfTopology] leaves out.
func onTree(name, title string, t *plan.Topology) (*arena, error) {
	net, err := plan.NetworkOfTopology(t, treeLatency)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rate, _ := t.Bandwidth()
	n := len(t.Hosts())
	for i := range n {
		for j := range n {
			if hops := len(t.Path(nil, i, j)); hops > 1 {
				net.Latency[i*n+j] += time.Duration(hops-1) * rate.Time(packetBytes)
			}
		}
	}
	return &arena{name: name, title: title, topology: t, ports: portPackets, problem: *planner.OnTopology(t), network: net}, nil
}

// onGrid returns the arena of sites and WAN links.
func onGrid(name, title string, g *gridfile.Grid) (*arena, error) {
	s, err := g.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a := &arena{name: name, title: title, grid: g, problem: planner.Problem{Snapshot: s, Tree: tree}}
	if a.network, err = plan.NetworkOf(s, a.problem.Clusters(), 1); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// hosts returns the number of hosts.
func (a *arena) hosts() int { return len(a.problem.Hosts()) }

// sized returns the problem of c with blocks of size bytes.
func (a *arena) sized(c plan.Collective, size int64) *planner.Problem {
	p := a.problem
	p.Collective = c
	if c == plan.Alltoall {
		p.Alltoall = plan.AlltoallSizes{Uniform: size}
	} else {
		p.Sizes = slices.Repeat([]int64{size}, a.hosts())
	}
	return &p
}

// bound returns the least seconds that a collective with blocks of size bytes takes in
// the simulator and on the emulated network.
func (a *arena) bound(c plan.Collective, size int64) (float64, error) {
	p := a.sized(c, size)
	var b plan.Bound
	var err error
	if c == plan.Alltoall {
		b, err = a.network.AlltoallBound(p.Alltoall)
	} else {
		b, err = a.network.AllgatherBound(p.Sizes)
	}
	return b.Seconds, err
}

// portBound is the bound of an allgather in the host model of Gupta & Vadhiyar (§4), in which every
// pair of hosts has a link of its own and a receive keeps its host's port busy for L + m/B. The hosts
// of a cluster receive N−1 blocks each, among them every block from outside at least once
// over a link from outside; no port is done before its share of all these receives. Latency is
// left out, for a receive may hold many blocks.
func (a *arena) portBound(size int64) float64 {
	s := a.problem.Snapshot
	n := s.N()
	cost := func(from, to int) float64 {
		return float64(size) / float64(s.Estimate(from, to).Bandwidth)
	}
	bound := 0.0
	for _, set := range a.problem.Clusters() {
		inside := make(map[int]bool)
		for _, h := range set {
			inside[h] = true
		}
		least, entry := math.Inf(1), math.Inf(1) // the cheapest receive, and the cheapest from outside
		for _, to := range set {
			for from := range n {
				if from == to {
					continue
				}
				least = min(least, cost(from, to))
				if !inside[from] {
					entry = min(entry, cost(from, to))
				}
			}
		}
		outside := n - len(set)
		busy := float64(len(set)*(n-1)-outside) * least
		if outside > 0 {
			busy += float64(outside) * entry
		}
		bound = max(bound, busy/float64(len(set)))
	}
	return bound
}

// volume returns the bytes that all hosts together receive.
func (a *arena) volume(size int64) int64 {
	n := int64(a.hosts())
	return n * (n - 1) * size
}

// between reports whether hosts s and d are in different sites.
func (a *arena) between(s, d int) bool {
	h := a.problem.Snapshot.Hosts()
	return h[s].Site != h[d].Site
}

// site keeps of g the sites of the given names and the links between them.
func keepSites(g *gridfile.Grid, names ...string) *gridfile.Grid {
	out := &gridfile.Grid{}
	index := make(map[int]int)
	for i, s := range g.Sites {
		if slices.Contains(names, s.Name) {
			index[i] = len(out.Sites)
			out.Sites = append(out.Sites, s)
		}
	}
	for _, l := range g.WAN {
		from, ok := index[l.From]
		to, too := index[l.To]
		if ok && too {
			l.From, l.To = from, to
			out.WAN = append(out.WAN, l)
		}
	}
	return out
}

var made struct {
	sync.Mutex // guards arenas
	arenas     map[string]*arena
}

// arenaOf returns the arena of a name in the table of arenas.
func arenaOf(name string) (*arena, error) {
	made.Lock()
	defer made.Unlock()
	if a := made.arenas[name]; a != nil {
		return a, nil
	}
	i := slices.IndexFunc(arenas, func(r arenaRow) bool { return r.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no arena %q", name)
	}
	a, err := arenas[i].make(&arenas[i])
	if err != nil {
		return nil, err
	}
	if made.arenas == nil {
		made.arenas = make(map[string]*arena)
	}
	made.arenas[name] = a
	return a, nil
}
