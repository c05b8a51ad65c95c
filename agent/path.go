package agent

import (
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe/netmap"
)

// minPathRTT is the round trip from which an exchange bounds what is under way: below it
// a queue empties faster than anyone can tell.
const minPathRTT = 2 * time.Millisecond

// A path that is shorter counts as well if it is as slow as this: what a link's queue has room for takes longer than anything else on the way, and answers to what
// comes the other way wait behind it. Within a site round trips are shorter than shortRTT.
const (
	shortRTT  = 400 * time.Microsecond
	slowQueue = 80_000 // bytes, of 64 packets
	slowTime  = 20 * time.Millisecond
)

// beside reports whether a path is no longer than those within a site.
func beside(e netmap.Estimate) bool { return 2*e.Latency < shortRTT }

// near reports whether what goes over a path of which e is known is not bounded. Where something holds each flow it is, for several lanes.
func near(e netmap.Estimate) bool {
	switch {
	case beside(e):
		return true
	case e.Has(netmap.FieldCapacity|netmap.FieldBandwidth) && e.Capacity >= strangers*e.Bandwidth:
		return false
	}
	return 2*e.Latency < minPathRTT && max(e.Bandwidth, e.Capacity, e.Carried, e.Line).Time(slowQueue) < slowTime
}

// path is what the map knows of the way to host, for the engine. It speaks of QUIC's flows: over TCP the
// kernel's congestion control is left alone, which paces (BBR) and finds its own window.
func (a *Agent) path(host string) exchange.Path {
	e, _ := a.believedEstimate(a.name, host)
	if c, _ := a.lanes.use(host); c.kind == LaneTCP {
		p := exchange.Path{}
		if beside(e) {
			p.Drain = e.Bandwidth
		}
		return p
	}
	if !beside(e) {
		e = a.lossesTo(host).fill(e)
	}
	p := PathOf(e)
	if p.RTT > 0 {
		if back, ok := a.believedEstimate(host, a.name); ok && back.Has(netmap.FieldBandwidth) {
			p.Back = max(back.Bandwidth, back.Capacity, back.Carried)
		}
	}
	return p
}

// way is what the map knows of the way to host, for the messages of groups.
func (a *Agent) way(host string) group.Way {
	e, _ := a.believedEstimate(a.name, host)
	p := PathOf(e)
	if p.RTT == 0 {
		return group.Way{}
	}
	sites := a.sites()
	w := group.Way{Site: sites[host], Rate: float64(max(p.Rate, p.Capacity))}
	for _, s := range sites {
		if s == sites[a.name] {
			w.Mates++
		}
	}
	return w
}

// PathOf returns what e says of a path. Where several flows have not been measured, they are taken to get
// what trains read of the link: it may be shared or hold each flow, and then they get less, and the
// engine sees it. What exchanges got is the least that they get. A path is Blind where agents have found neither.
func PathOf(e netmap.Estimate) exchange.Path {
	if !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) || near(e) {
		return exchange.Path{}
	}
	p := exchange.Path{RTT: 2 * e.Latency, Rate: e.Bandwidth}
	switch {
	case e.Has(netmap.FieldCapacity | netmap.FieldCarried): // ports hold each pair
		p.Capacity, p.Link = e.Capacity, e.Carried
	case e.Has(netmap.FieldCapacity):
		p.Capacity = e.Capacity
	case e.Has(netmap.FieldCarried | netmap.FieldLine):
		p.Capacity, p.AtLeast = max(e.Carried, e.Line), true
	case e.Has(netmap.FieldCarried):
		p.Capacity, p.AtLeast = e.Carried, true
	case e.Has(netmap.FieldLine):
		p.Capacity = e.Line
	}
	p.Blind = !e.Has(netmap.FieldLanes) && !p.AtLeast && e.Source != netmap.SourceDeclared && e.Source != netmap.SourceUnknown
	if e.Has(netmap.FieldLanes) && e.Source >= netmap.SourceProbed {
		p.Knee = e.Lanes
	}
	if e.Has(netmap.FieldLoss) {
		p.Loss = e.Loss
	}
	return p
}
