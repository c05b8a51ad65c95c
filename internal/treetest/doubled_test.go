package treetest

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// TestShortGoTwice: over a way that loses packets, what is through long before the repair of one of them goes twice, and mostly nobody waits for a repair.
func TestShortGoTwice(t *testing.T) {
	const runs = 16
	trip := 100 * time.Millisecond
	link := func(from, to string) gridnet.Link {
		return gridnet.Link{From: from, To: to, Rate: 20 * gridnet.Mbps, Latency: trip / 2, Loss: 0.04}
	}
	hosts := []string{"a0", "a1", "a2", "b0", "b1", "b2"}
	cfg := Config{
		Net: gridnet.Config{
			Seed:  3,
			Sites: []gridnet.Site{{Name: "a", Hosts: hosts[:3]}, {Name: "b", Hosts: hosts[3:]}},
			Links: []gridnet.Link{link("a", "b"), link("b", "a")},
		},
		Path: func(from, to string) exchange.Path {
			if from[0] == to[0] {
				return exchange.Path{}
			}
			return exchange.Path{RTT: trip, Rate: 2.5e5, Capacity: 2.4e6, Loss: 0.04, Flows: 9}
		},
	}
	sizes := make([]int64, len(hosts))
	for i := range sizes {
		sizes[i] = 2 << 10
	}
	p, err := baseline.Simple(hosts, sizes)
	if err != nil {
		t.Fatal(err)
	}
	Run(t, cfg, func(c *Cluster) {
		quick := 0
		for range runs {
			if c.Run(p).Makespan < trip {
				quick++
			}
			time.Sleep(time.Second)
		}
		if quick < runs*3/4 { // once, 3 or 4 are
			t.Errorf("%d of %d allgathers took less than a round trip, want %d", quick, runs, runs*3/4)
		}
	})
}
