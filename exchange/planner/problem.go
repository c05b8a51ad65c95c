package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/openshop"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Problem is one collective to be scheduled. What an algorithm does not read may be
// missing; an algorithm that lacks something says so.
type Problem struct {
	// Collective is what is to be done. Empty means allgather.
	Collective plan.Collective
	Sizes      []int64            // allgather: bytes that each host contributes
	Alltoall   plan.AlltoallSizes // alltoall

	Snapshot *netmap.Snapshot // of the hosts, in rank order
	Tree     *pools.Tree      // of the hosts of Snapshot
	Topology *plan.Topology   // of the same hosts; nil where the switches are not known
	// LANs are the switch trees of sites, each of some of the hosts and no two of the same. A
	// site without one is taken for one switch. Not looked at where Topology is set.
	LANs []*plan.Topology
	// Ahead is whether hosts will have the plan before they begin: then its length delays nobody.
	Ahead bool

	Options

	declared []*plan.Topology // all that Declare was told

	memo   *memo                // of Select's copy of a problem
	bounds *plan.AlltoallBounds // of an alltoall, once known
}

// A memo keeps what several algorithms begin with.
type memo struct {
	min3     *plan.Plan
	clusters [][]int
	guessed  *plan.Topology // of all hosts, nil where there is no guess
	guesses  bool           // guessed is known
}

// Options are the choices that some algorithms leave to the user.
type Options struct {
	Duplex plan.Duplex       // host model of min3 and broadcast-trees; zero means full
	Links  min3.Links        // whether min3's transfers share links; zero means that they do not
	Trees  baseline.TreeKind // of broadcast-trees; empty means clustered
	AAPC   phase.Options     // synchronisation of aapc; zero means none
	Tuned  bool              // that of [phase.Tuned] in place of AAPC
	Fanout int               // of group-shuffle; zero means 5, at most one less than there are hosts
}

// treeLatency is the one-way latency between two hosts of a switch tree, which the file does
// not tell: what a few store-and-forward switches and two network stacks take.
const treeLatency = 50 * time.Microsecond

// OnTopology returns the problem of a collective over the hosts of a switch tree: one
// pool, in which every pair has the rate of the links and a latency of 50 µs. Without
// a rate in the file there is no snapshot, and plans carry no times.
func OnTopology(t *plan.Topology) *Problem {
	names := t.Hosts()
	n := len(names)
	hosts := make([]netmap.Host, n)
	all := make([]int, n)
	for i, name := range names {
		hosts[i], all[i] = netmap.Host{Name: name}, i
	}
	p := &Problem{Topology: t, Tree: &pools.Tree{Root: &pools.Pool{Hosts: all}, Hosts: hosts}}
	p.AAPC.Sync = phase.Auto
	rate, ok := t.Bandwidth()
	if !ok {
		return p
	}
	est := make([]netmap.Estimate, n*n)
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: treeLatency, Bandwidth: rate}
	}
	p.Snapshot = netmap.NewSnapshot(0, hosts, est)
	return p
}

// Hosts returns the names of the hosts in rank order.
func (p *Problem) Hosts() []string {
	if p.Topology != nil {
		return p.Topology.Hosts()
	}
	return p.Snapshot.Names()
}

func (p *Problem) collective() plan.Collective {
	if p.Collective == "" {
		return plan.Allgather
	}
	return p.Collective
}

// LargestBlock returns the bytes of the largest block.
func (p *Problem) LargestBlock() int64 {
	if p.collective() == plan.Allgather {
		return slices.Max(p.Sizes)
	}
	if p.Alltoall.Matrix == nil {
		return p.Alltoall.Uniform
	}
	var largest int64
	for i, row := range p.Alltoall.Matrix {
		for j, size := range row {
			if i != j {
				largest = max(largest, size)
			}
		}
	}
	return largest
}

// ErrNoRates is returned, wrapped, by what needs the rates of links where a switch tree
// came without any.
var ErrNoRates = errors.New("the switch tree has no bandwidth_mbps")

// network returns the flow model of the problem, nil where rates are not known.
func (p *Problem) network() (*plan.Network, error) {
	switch {
	case p.Snapshot == nil:
		return nil, nil
	case p.Topology != nil:
		return plan.NetworkOfTopology(p.Topology, treeLatency)
	}
	net, err := plan.NetworkOf(p.Snapshot, p.Clusters(), 1)
	if err != nil {
		return nil, err
	}
	for _, t := range p.LANs {
		if err := net.AddTree(t, p.linkRate(t)); err != nil {
			return nil, err
		}
	}
	return net, nil
}

// linkRate is the median rate between the hosts of a switch tree: what its links have, for want of a
// declaration. A host's own port is a link like the others.
func (p *Problem) linkRate(t *plan.Topology) netmap.BytesPerSec {
	var rates []netmap.BytesPerSec
	at := make(map[string]int, p.Snapshot.N())
	for i, name := range p.Snapshot.Names() {
		at[name] = i
	}
	for _, a := range t.Hosts() {
		for _, b := range t.Hosts() {
			if r, ok := p.Snapshot.Bandwidth(at[a], at[b]); ok && a != b {
				rates = append(rates, r)
			}
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// Declare tells the problem of the switch trees that operators have declared, of sites that may
// have more hosts than take part. A tree that holds all hosts of the problem becomes its
// Topology; one that holds all hosts of a cluster joins LANs; others say nothing of these hosts and
// are passed over. Call it once Snapshot and Tree are set.
func (p *Problem) Declare(trees ...*plan.Topology) error {
	p.declared = trees
	for _, set := range p.Clusters() {
		if len(set) < 2 {
			continue
		}
		names := make([]string, len(set))
		for i, h := range set {
			names[i] = p.Snapshot.Host(h).Name
		}
		for _, t := range trees {
			if !t.Covers(names) {
				continue
			}
			part, err := t.Subset(names)
			if err != nil {
				return err
			}
			if len(set) < p.Snapshot.N() {
				p.LANs = append(p.LANs, part)
				break
			}
			if _, ok := part.Bandwidth(); !ok {
				part = part.WithBandwidth(p.linkRate(part))
			}
			p.Topology = part
			break
		}
	}
	return nil
}

// bound returns the bound of the problem on net.
func (p *Problem) bound(net *plan.Network) (plan.Bound, error) {
	if p.collective() == plan.Alltoall {
		b, err := p.alltoallBounds(net)
		if err != nil {
			return plan.Bound{}, err
		}
		return b.Relayed, nil
	}
	return net.AllgatherBound(p.Sizes)
}

// needRates returns an error that names what asks for the rates of links if they are not known.
func (p *Problem) needRates() error {
	if p.Snapshot == nil {
		return fmt.Errorf("it schedules by the rates of links: %w", ErrNoRates)
	}
	return nil
}

// guess returns the switch tree that measurements suggest for the hosts, all of one LAN, nil where nothing does or the tree is declared.
func (p *Problem) guess() *plan.Topology {
	if p.Topology != nil || p.Snapshot == nil || len(p.Clusters()) > 1 {
		return nil
	}
	if p.memo == nil {
		return guess(p.Snapshot, p.Clusters()[0])
	}
	if !p.memo.guesses {
		p.memo.guessed, p.memo.guesses = guess(p.Snapshot, p.Clusters()[0]), true
	}
	return p.memo.guessed
}

// cables returns the switch tree to whose cables orders of hosts are to keep: as declared, as guessed, or one switch.
func (p *Problem) cables() (*plan.Topology, error) {
	if t := p.guess(); t != nil {
		return t, nil
	}
	return p.switches()
}

// switches returns the switch tree of the hosts. Hosts of one pool, of which nothing else is
// known, are taken to hang on one switch.
func (p *Problem) switches() (*plan.Topology, error) {
	if p.Topology != nil {
		return p.Topology, nil
	}
	if sets := p.Clusters(); len(sets) > 1 {
		return nil, fmt.Errorf("it needs one switch tree, and these hosts are in %d pools", len(sets))
	}
	hosts := p.Snapshot.Names()
	return plan.NewTopology([]string{"switch"}, nil, hosts, make([]int, len(hosts)), 0)
}

// min3 returns the plan of Min3. The caller may set its bound, and must not modify it otherwise.
func (p *Problem) min3() (*plan.Plan, error) {
	if err := p.needRates(); err != nil {
		return nil, err
	}
	if p.memo != nil && p.memo.min3 != nil {
		return p.memo.min3, nil
	}
	made, err := min3.Schedule(p.Snapshot, p.min3Tree(), p.Sizes, min3.Options{Duplex: p.Duplex, Links: p.Links})
	if p.memo != nil {
		p.memo.min3 = made
	}
	return made, err
}

// min3Tree returns the pool tree, or where links are shared, the clusters that share them.
func (p *Problem) min3Tree() *pools.Tree {
	if p.Links == min3.Shared {
		return p.flat()
	}
	return p.Tree
}

func (p *Problem) aapc() (*plan.Plan, error) {
	t, err := p.switches()
	if err != nil {
		return nil, err
	}
	return p.phases(t, p.Alltoall)
}

// phases is the alltoall of sizes in phases on t.
func (p *Problem) phases(t *plan.Topology, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	sync := p.AAPC
	if p.Tuned {
		sync = phase.Tuned(t, sizes)
	}
	return phase.Schedule(t, sizes, sync)
}

// openShop returns the plan of [openshop.Alltoall], whose messages take what the ports of their hosts and the way between them allow.
func (p *Problem) openShop() (*plan.Plan, error) {
	if p.Topology == nil {
		if _, err := p.switches(); err != nil { // several pools
			return nil, err
		}
	}
	b, err := p.believed()
	if err != nil {
		return nil, err
	}
	net := b.net
	return openshop.Alltoall(p.Hosts(), p.Alltoall, func(src, dst int, bytes int64) float64 {
		if net == nil {
			return float64(bytes)
		}
		rate := min(net.Egress[src], net.Ingress[dst])
		if flow := net.Ceiling[src*len(net.Hosts)+dst]; flow > 0 {
			rate = min(rate, flow)
		}
		if !(rate > 0) {
			return float64(bytes)
		}
		return net.Latency[src*len(net.Hosts)+dst].Seconds() + float64(bytes)/float64(rate)
	})
}

// defaultFanout is what Tam & Wang use for 16 hosts (§5).
const defaultFanout = 5

func (p *Problem) fanout() int {
	if p.Fanout == 0 {
		return max(1, min(defaultFanout, len(p.Hosts())-1))
	}
	return p.Fanout
}
