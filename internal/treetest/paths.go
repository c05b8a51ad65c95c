package treetest

import (
	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Payload is the share of the IP bytes of a packet of 1,280 bytes, with which connections begin, that are a stream's.
const Payload = 1248.0 / 1308

// Paths is what agents would tell their engines if they knew snap, which is of IP bytes. There is no knee: those
// that a grid declares are of flows that add up.
func Paths(snap *netmap.Snapshot) func(from, to string) exchange.Path {
	index := make(map[string]int)
	for i, name := range snap.Names() {
		index[name] = i
	}
	return func(from, to string) exchange.Path {
		e := snap.Estimate(index[from], index[to])
		e.Lanes, e.Known = 0, e.Known&^netmap.FieldLanes
		e.Bandwidth, e.Capacity, e.Carried = e.Bandwidth*Payload, e.Capacity*Payload, e.Carried*Payload
		p := agent.PathOf(e)
		if p.RTT > 0 {
			back := snap.Estimate(index[to], index[from])
			p.Back = max(back.Bandwidth, back.Capacity) * Payload
		}
		return p
	}
}
