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

// TestOverQUIC: real engines take less than any schedule without relays can, and every byte arrives.
func TestOverQUIC(t *testing.T) {
	file, err := gridfile.Parse("bottleneck", []byte(bottleneck))
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
	sizes := plan.AlltoallSizes{Uniform: 64 << 10}
	bounds, err := net.AlltoallBounds(sizes)
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
		return exchange.Path{RTT: 2 * e.Latency, Rate: e.Bandwidth, Flows: 9}
	}}
	if cfg.Net, err = gridnet.FromGrid(file); err != nil {
		t.Fatal(err)
	}
	treetest.Run(t, cfg, func(c *treetest.Cluster) {
		took := c.Run(p).Makespan.Seconds()
		t.Logf("%.3f s: %.2f x the relayed bound, %.2f x the direct one", took, took/bounds.Relayed.Seconds, took/bounds.Direct.Seconds)
		if took < bounds.Relayed.Seconds {
			t.Errorf("%.3f s are under the bound %v", took, bounds.Relayed)
		}
		if took > 0.6*bounds.Direct.Seconds {
			t.Errorf("%.3f s are over 0.6 times the direct bound %v: what do relays gain?", took, bounds.Direct)
		}
	})
}
