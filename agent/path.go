package agent

import (
	"time"

	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe/netmap"
)

// minPathRTT is the round trip from which an exchange bounds what is under way: below it
// a queue empties faster than anyone can tell.
const minPathRTT = 2 * time.Millisecond

// path is what the map knows of the way to host, for the engine.
func (a *Agent) path(host string) exchange.Path {
	e, _ := a.believedEstimate(a.name, host)
	if !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) || 2*e.Latency < minPathRTT {
		return exchange.Path{}
	}
	// In an allgather all hosts of a site send over its links at once.
	flows := 1
	for _, m := range a.members.Members() {
		if m.Name != a.name && m.State == membership.Alive && m.Site == a.opts.Identity.Settings.Site {
			flows++
		}
	}
	return exchange.Path{RTT: 2 * e.Latency, Rate: e.Bandwidth, Flows: flows}
}
