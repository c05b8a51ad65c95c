package wan_test

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/treetest"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// bottleneck has a link from a to c that is worth going round.
const bottleneck = `
sites:
  - {name: a, hosts: 3, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: b, hosts: 2, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: c, hosts: 3, lan: {bandwidth: 100Mbps, latency: 60us}}
wan:
  - {from: a, to: b, bandwidth: 10Mbps, latency: 10ms, both: true}
  - {from: b, to: c, bandwidth: 20Mbps, latency: 5ms, both: true}
  - {from: a, to: c, bandwidth: 2Mbps, latency: 20ms, both: true}
`

// heldFlows has links that take four flows of different hosts to fill.
const heldFlows = `
sites:
  - {name: a, hosts: 4, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: b, hosts: 4, lan: {bandwidth: 100Mbps, latency: 60us}}
wan:
  - {from: a, to: b, bandwidth: 1Mbps, capacity: 4Mbps, latency: 50ms, both: true}
`

// TestOverQUIC: real engines take less than any schedule without relays can, and every byte arrives.
func TestOverQUIC(t *testing.T) {
	bounds, r := overQUIC(t, bottleneck, 64<<10)
	took := r.Makespan.Seconds()
	if took < bounds.Relayed.Seconds {
		t.Errorf("%.3f s are under the bound %v", took, bounds.Relayed)
	}
	if took > 0.6*bounds.Direct.Seconds {
		t.Errorf("%.3f s are over 0.6 times the direct bound %v: what do relays gain?", took, bounds.Direct)
	}
}

// TestHeldFlows: where the network holds each flow, and both directions are full, the link is full from start to end and no
// flow's own queue overflows. Headers and acknowledgements are a tenth of the bytes, the way is 0.05 s.
func TestHeldFlows(t *testing.T) {
	bounds, r := overQUIC(t, heldFlows, 96<<10)
	if took := r.Makespan.Seconds(); took > 1.14*bounds.Direct.Seconds {
		t.Errorf("%.3f s are over 1.14 times the bound %v", took, bounds.Direct)
	}
	if r.Lost > 0 {
		t.Errorf("%d packets lost", r.Lost)
	}
}

// overQUIC runs an alltoall of blocks of so many bytes on engines that know the grid.
func overQUIC(t *testing.T, grid string, bytes int64) (bounds *plan.AlltoallBounds, r *treetest.Result) {
	t.Helper()
	file, err := gridfile.Parse(t.Name(), []byte(grid))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := file.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pools.Build(snap, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	net, err := plan.NetworkOf(snap, tree.Leaves(), 1)
	if err != nil {
		t.Fatal(err)
	}
	sizes := plan.AlltoallSizes{Uniform: bytes}
	bounds, err = net.AlltoallBounds(sizes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wan.Alltoall(net, sizes, bounds, nil, wan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	index := make(map[string]int)
	for i, name := range snap.Names() {
		index[name] = i
	}
	cfg := treetest.Config{Path: func(from, to string) exchange.Path {
		e := snap.Estimate(index[from], index[to])
		if 2*e.Latency < 2*time.Millisecond {
			return exchange.Path{}
		}
		p := exchange.Path{RTT: 2 * e.Latency, Rate: e.Bandwidth}
		if e.Has(netmap.FieldCapacity) {
			p.Capacity = e.Capacity
		}
		return p
	}}
	if cfg.Net, err = gridnet.FromGrid(file); err != nil {
		t.Fatal(err)
	}
	treetest.Run(t, cfg, func(c *treetest.Cluster) {
		r = c.Run(p)
		took := r.Makespan.Seconds()
		t.Logf("%.3f s: %.3f x the relayed bound, %.3f x the direct one, %d packets lost", took, took/bounds.Relayed.Seconds, took/bounds.Direct.Seconds, r.Lost)
	})
	return bounds, r
}
