package treetest

import (
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestBothWaysFull: five pairs of hosts send over a slow and short link, and one pair as much the other way. What it sends is answered behind what the five send: if these let out what their least windows
// hold, the answers stand in a queue of ten round trips, and the one pair, whose window is as small, leaves its way half idle until they are through: 1.7 times the least. Where links carry more than is believed they are
// filled all the same.
func TestBothWaysFull(t *testing.T) {
	if raceDetector {
		t.Skip("megabytes between six hosts: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, tt := range []struct {
		name  string
		known float64 // of what the links carry
		block int64
		most  float64 // times the least time
	}{
		{"as believed", 0.95, 64 << 10, 1.25}, // a map's rates are of payload
		{"twice as fast as believed", 0.5, 1 << 20, 1.5},
	} {
		t.Run(tt.name, func(t *testing.T) { bothWays(t, tt.known, tt.block, tt.most) })
	}
}

func bothWays(t *testing.T, part float64, block int64, most float64) {
	const hosts = 5
	const trip, rate = 14 * time.Millisecond, 3.3e6 / 8 // bytes a second
	names := []string{"a0", "a1", "a2", "a3", "a4"}
	link := func(from, to string) gridnet.Link {
		return gridnet.Link{From: from, To: to, Rate: rate, Latency: trip / 2}
	}
	path := func(src, dst string) exchange.Path {
		if src[0] == dst[0] {
			return exchange.Path{}
		}
		known := netmap.BytesPerSec(part * rate)
		return exchange.Path{RTT: trip, Rate: known, Back: known}
	}
	cfg := Config{
		Net: gridnet.Config{
			Sites: []gridnet.Site{{Name: "a", Hosts: names}, {Name: "b", Hosts: []string{"b0"}}},
			Links: []gridnet.Link{link("a", "b"), link("b", "a")},
		},
		Path:    path,
		Chunk:   func(*plan.Plan) int { return 4 * 1390 },
		PathMTU: true,
	}
	p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Hosts: append(slices.Clone(names), "b0"), Matrix: make([][]int64, hosts+1)}
	for h := range p.Matrix {
		p.Matrix[h] = make([]int64, hosts+1)
	}
	send := func(src, dst int, n int64) {
		p.Matrix[src][dst] = n
		p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: src, Dst: dst, Phase: -1, Blocks: []plan.Block{{Origin: src, Dest: dst}}})
	}
	for h := range hosts {
		send(h, hosts, block)
	}
	send(hosts, 0, hosts*block)
	least := netmap.BytesPerSec(rate).Time(hosts * block)
	Run(t, cfg, func(c *Cluster) {
		c.Run(p) // connections look for the packets' size
		for range 3 {
			got := c.Run(p).Makespan
			t.Logf("%v, %.3f times the least", got, got.Seconds()/least.Seconds())
			if got.Seconds() > most*least.Seconds() {
				t.Errorf("%v, want %v times %v at most", got, most, least)
			}
		}
	})
}
