package treetest

import (
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// TestFullPackets: once a connection has found out how much a packet carries, the slices of chunks fill whole packets.
func TestFullPackets(t *testing.T) {
	const packet, chunks = 1390, 100 // bytes; 1,430 less headers
	trip := 20 * time.Millisecond
	var mu sync.Mutex
	var packets, carried int // of data, over both links
	link := func(from, to string) gridnet.Link {
		return gridnet.Link{From: from, To: to, Rate: 10 * gridnet.Mbps, Latency: trip / 2}
	}
	cfg := Config{
		Net: gridnet.Config{
			Sites: []gridnet.Site{{Name: "a", Hosts: []string{"a0"}}, {Name: "b", Hosts: []string{"b0"}}},
			Links: []gridnet.Link{link("a", "b"), link("b", "a")},
			OnPacket: func(e gridnet.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == gridnet.Crossed && e.Size > 300 {
					packets++
					carried += e.Size
				}
			},
		},
		Path:    func(_, _ string) exchange.Path { return exchange.Path{RTT: trip, Rate: 1.2e6, Flows: 8} },
		Chunk:   func(*plan.Plan) int { return 4 * packet },
		PathMTU: true,
	}
	p, err := baseline.Ring([]string{"a0", "b0"}, []int64{chunks * 4 * packet, chunks * 4 * packet})
	if err != nil {
		t.Fatal(err)
	}
	Run(t, cfg, func(c *Cluster) {
		c.Run(p) // connections look for the size
		mu.Lock()
		packets, carried = 0, 0
		mu.Unlock()
		c.Run(p)
		mu.Lock()
		defer mu.Unlock()
		if want := 2 * chunks * 4; float64(packets) > 1.04*float64(want) {
			t.Errorf("%d packets of data, of %d IP bytes on average, want %d", packets, carried/packets, want)
		}
	})
}
