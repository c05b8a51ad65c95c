package planner

import (
	"errors"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// wan is the alltoall across sites. Inside a site it runs in phases where the switches are
// declared, and else the group shuffle.
func (p *Problem) wan() (*plan.Plan, error) {
	if err := p.needRates(); err != nil {
		return nil, err
	}
	b, err := p.believed()
	if err != nil {
		return nil, err
	}
	net := b.net
	var bounds *plan.AlltoallBounds
	if b.raised { // the problem keeps those of the map
		bounds, err = net.AlltoallBounds(p.Alltoall)
	} else {
		bounds, err = p.alltoallBounds(net)
	}
	if err != nil {
		return nil, err
	}
	var local []*plan.Plan
	for _, hosts := range p.Clusters() {
		if len(hosts) < 2 {
			continue
		}
		l, err := p.amongHosts(hosts)
		if err != nil {
			return nil, err
		}
		local = append(local, l)
	}
	return wan.Alltoall(net, p.Alltoall, bounds, local, wan.Options{Lines: p.lines(net), Blind: b.open, Lossy: p.lossy(net)})
}

// A belief is the network by which plans are made and compared: that of the map, where a link of which nobody has measured what several flows
// get is taken to be like the one back; on a LAN a pair gets what its ports have, and where measurements tell of switches, their cables are there. Forecasts by the map as it stands
// would not do: a plan that sends much over such a link would lose to one that is far slower.
type belief struct {
	net    *plan.Network // nil where rates are not known
	blind  []bool        // of which links nobody has measured that, [from*pools+to]; nil: of none
	open   []bool        // of which links nobody has measured what many pairs of hosts get, likewise
	raised bool          // net is not the map's
}

func (p *Problem) believed() (b belief, err error) {
	if b.net, err = p.network(); err != nil || b.net == nil || p.Topology != nil {
		return b, err
	}
	b.blind, b.open = p.blind(b.net), p.open(b.net)
	b.raised = likened(b.net, b.blind, p.trains(b.net))
	if len(p.Clusters()) == 1 {
		b.raised = evened(b.net, p.Snapshot) || b.raised
	}
	if t := p.guess(); t != nil {
		b.raised = true
		err = cabled(b.net, t)
	}
	return b, err
}

// evened takes what the pairs of one LAN were measured to get below their ports to be for what crossed their way meanwhile, and reports
// whether it has changed net. A plan in which each host sends to one other at a time would else wait, by its forecast, for the worst reading in each step.
func evened(net *plan.Network, s *netmap.Snapshot) (raised bool) {
	n := len(net.Hosts)
	for i := range net.Ceiling {
		source := s.Estimate(i/n, i%n).Source
		port := min(net.Egress[i/n], net.Ingress[i%n])
		if measured := source == netmap.SourcePredicted || source >= netmap.SourceProbed; measured && net.Ceiling[i] > 0 && net.Ceiling[i] < port {
			net.Ceiling[i], raised = port, true
		}
	}
	return raised
}

// cabled adds the cables of a guessed tree to a network of its hosts. They are taken to carry what a port does.
func cabled(net *plan.Network, t *plan.Topology) error {
	ports := slices.Sorted(slices.Values(slices.Concat(net.Egress, net.Ingress)))
	return net.AddTree(t, ports[len(ports)/2])
}

// blind says of which links between clusters nobody has measured what several flows get. That trains read no more than one gets is none: where the
// network holds each flow, it holds them as well.
func (p *Problem) blind(net *plan.Network) []bool {
	return unknown(p.Snapshot, net, func(e netmap.Estimate) bool { return e.Has(netmap.FieldCapacity) })
}

// open says of which links nobody has measured what many pairs of hosts get: of a blind one, and of one of which a pair got what its ports take. Over such a link
// bridges are spread over ports. An allgather is not cut for it, as each block crosses it but once.
func (p *Problem) open(net *plan.Network) []bool {
	return unknown(p.Snapshot, net, func(e netmap.Estimate) bool { return e.Has(netmap.FieldCapacity) && !e.Has(netmap.FieldCarried) })
}

// unknown says of which links no pair of hosts has what known looks for.
func unknown(s *netmap.Snapshot, net *plan.Network, known func(netmap.Estimate) bool) []bool {
	n, pools := s.N(), net.Pools()
	none := make([]bool, pools*pools)
	for k := range none {
		none[k] = k/pools != k%pools
	}
	for i := range n {
		for j := range n {
			if i != j && known(s.Estimate(i, j)) {
				none[net.Pool[i]*pools+net.Pool[j]] = false
			}
		}
	}
	return none
}

// likened raises blind links of net to as many times what one flow gets as the link back has, where that
// is known, and to no more than that link: an agent measures capacities one after the other for
// minutes, and a link that is taken for one flow's rate meanwhile loses all that it could carry to
// relays. Where trains read of the link back what several flows get, losses hold its flows and no limit does: then
// what trains read of this one is what it carries at most. It reports whether any was raised.
func likened(net *plan.Network, blind []bool, trains []netmap.BytesPerSec) (raised bool) {
	n, pools := len(net.Hosts), net.Pools()
	flow := make([]netmap.BytesPerSec, pools*pools)
	for i := range n {
		for j := range n {
			k := net.Pool[i]*pools + net.Pool[j]
			flow[k] = max(flow[k], net.Ceiling[i*n+j])
		}
	}
	for k := range blind {
		back := k%pools*pools + k/pools
		if !blind[k] || blind[back] || flow[back] <= 0 {
			continue
		}
		like := min(flow[k]*net.Pipe[back]/flow[back], net.Pipe[back])
		if trains[back] >= wholeLink*net.Pipe[back] {
			like = min(like, trains[k])
		}
		if like > net.Pipe[k] {
			net.Pipe[k], raised = like, true
		}
	}
	return raised
}

// wholeLink is the part of what a link carries from which on trains have read all of it.
const wholeLink = 0.75

// trains returns the most that trains have read of the links between clusters.
func (p *Problem) trains(net *plan.Network) []netmap.BytesPerSec {
	n, pools := p.Snapshot.N(), net.Pools()
	most := make([]netmap.BytesPerSec, pools*pools)
	for i := range n {
		for j := range n {
			e := p.Snapshot.Estimate(i, j)
			read := e.Bandwidth
			if e.Has(netmap.FieldLine) {
				read = e.Line
			}
			if e.Has(netmap.FieldBandwidth) {
				link := net.Pool[i]*pools + net.Pool[j]
				most[link] = max(most[link], read)
			}
		}
	}
	return most
}

// lines returns the line rates of the links between clusters, for those of which no pair has a
// measured capacity: a train of packets reads them at once, what many flows get is measured
// about hourly.
func (p *Problem) lines(net *plan.Network) []netmap.BytesPerSec {
	n, pools := p.Snapshot.N(), net.Pools()
	lines, known := make([]netmap.BytesPerSec, pools*pools), make([]bool, pools*pools)
	for i := range n {
		for j := range n {
			link := net.Pool[i]*pools + net.Pool[j]
			e := p.Snapshot.Estimate(i, j)
			if net.Pool[i] == net.Pool[j] || known[link] {
				continue
			}
			if e.Has(netmap.FieldCapacity) {
				known[link], lines[link] = true, 0
			} else if e.Has(netmap.FieldLine) {
				lines[link] = max(lines[link], e.Line)
			}
		}
	}
	return lines
}

// lossy says of which links some pair of hosts is known to lose packets.
func (p *Problem) lossy(net *plan.Network) []bool {
	out := unknown(p.Snapshot, net, func(e netmap.Estimate) bool { return e.TellsLoss() && e.Loss > 0 })
	for k := range out {
		out[k] = !out[k]
	}
	return out
}

// amongHosts is the alltoall inside one cluster.
func (p *Problem) amongHosts(hosts []int) (*plan.Plan, error) {
	names := make([]string, len(hosts))
	of := make(map[string]int, len(hosts))
	for i, h := range hosts {
		names[i] = p.Snapshot.Host(h).Name
		of[names[i]] = h
	}
	for _, t := range p.LANs {
		if !t.Covers(names) {
			continue
		}
		part, err := t.Subset(names)
		if err != nil {
			return nil, err
		}
		order := make([]int, len(hosts)) // of the tree
		for i, name := range part.Hosts() {
			order[i] = of[name]
		}
		return p.phases(part, p.Alltoall.Among(order))
	}
	fanout := p.Fanout
	if fanout == 0 {
		fanout = defaultFanout
	}
	return shuffle.Group(names, p.Alltoall.Among(hosts), max(1, min(fanout, len(hosts)-1)))
}

// alltoallBounds returns the bounds of the problem on net, which is [Problem.network].
func (p *Problem) alltoallBounds(net *plan.Network) (*plan.AlltoallBounds, error) {
	if p.collective() != plan.Alltoall {
		return nil, errors.New("only an alltoall has these bounds")
	}
	if p.bounds == nil {
		b, err := net.AlltoallBounds(p.Alltoall)
		if err != nil {
			return nil, err
		}
		p.bounds = b
	}
	return p.bounds, nil
}
