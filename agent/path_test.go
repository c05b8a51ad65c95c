package agent

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestPathOf: what an exchange is told of a path, and over how many lanes it then begins.
func TestPathOf(t *testing.T) {
	const one, all = netmap.FieldLatency | netmap.FieldBandwidth, netmap.FieldCapacity | netmap.FieldLanes
	far := netmap.Estimate{Latency: 50 * time.Millisecond, Bandwidth: 2 * netmap.Mbps, Capacity: 20 * netmap.Mbps, Lanes: 13, Line: 19 * netmap.Mbps, Carried: 12 * netmap.Mbps, Loss: 0.01}
	for _, c := range []struct {
		name   string
		known  netmap.Field
		source netmap.Source
		edit   func(*netmap.Estimate)
		want   exchange.Path
		lanes  int
	}{
		{"nothing", 0, 0, nil, exchange.Path{}, 1},
		{"no rate", netmap.FieldLatency, 0, nil, exchange.Path{}, 1},
		{"near", one, 0, func(e *netmap.Estimate) { e.Latency = 150 * time.Microsecond }, exchange.Path{}, 1},
		{"short, and fast", one, 0, func(e *netmap.Estimate) { e.Latency, e.Bandwidth = 500*time.Microsecond, 50*netmap.Mbps }, exchange.Path{}, 1},
		{"short, and slow", one, 0, func(e *netmap.Estimate) { e.Latency = 500 * time.Microsecond }, exchange.Path{RTT: time.Millisecond, Rate: 2 * netmap.Mbps}, 1},
		{"short, and fast, and each flow held", one | netmap.FieldCapacity, 0, func(e *netmap.Estimate) {
			e.Latency, e.Bandwidth, e.Capacity = 500*time.Microsecond, 50*netmap.Mbps, 200*netmap.Mbps
		},
			exchange.Path{RTT: time.Millisecond, Rate: 50 * netmap.Mbps, Capacity: 200 * netmap.Mbps}, 4},
		{"a train alone", one, 0, nil, exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps}, 1},
		{"a flow and a train", one | netmap.FieldLine | netmap.FieldLoss, netmap.SourceProbed, nil,
			exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps, Capacity: 19 * netmap.Mbps, Blind: true, Loss: 0.01}, 13},
		{"what exchanges got", one | netmap.FieldCarried, netmap.SourceProbed, nil,
			exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps, Capacity: 12 * netmap.Mbps, AtLeast: true}, 6},
		{"what exchanges got, less than trains", one | netmap.FieldCarried | netmap.FieldLine, netmap.SourceProbed, nil,
			exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps, Capacity: 19 * netmap.Mbps, AtLeast: true}, 10},
		{"a knee", one | all, netmap.SourceProbed, nil,
			exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps, Capacity: 20 * netmap.Mbps, Knee: 13}, 13},
		{"ports that hold each pair", one | all | netmap.FieldCarried, netmap.SourceProbed, func(e *netmap.Estimate) { e.Carried = 60 * netmap.Mbps },
			exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps, Capacity: 20 * netmap.Mbps, Link: 60 * netmap.Mbps, Knee: 13}, 13},
		{"a knee that nobody has measured", one | all, netmap.SourceDeclared, nil,
			exchange.Path{RTT: 100 * time.Millisecond, Rate: 2 * netmap.Mbps, Capacity: 20 * netmap.Mbps}, 10},
	} {
		e := far
		e.Known, e.Source = c.known, c.source
		if c.edit != nil {
			c.edit(&e)
		}
		got := PathOf(e)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if n := got.Lanes(); n != c.lanes {
			t.Errorf("%s: %d lanes, want %d", c.name, n, c.lanes)
		}
	}
}
