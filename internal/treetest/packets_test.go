package treetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/netmap"
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

// TestSmallBlocksTogether: blocks of an alltoall that are much shorter than a packet share packets where they cross a link.
func TestSmallBlocksTogether(t *testing.T) {
	const size, hosts = 256, 8
	var sites []gridnet.Site
	net := &plan.Network{Pipe: make([]netmap.BytesPerSec, 4), Latency: make([]time.Duration, 4*hosts*hosts), Ceiling: make([]netmap.BytesPerSec, 4*hosts*hosts)}
	for k, site := range []string{"a", "b"} {
		sites = append(sites, gridnet.Site{Name: site})
		for i := range hosts {
			sites[k].Hosts = append(sites[k].Hosts, fmt.Sprint(site, i))
			net.Egress, net.Ingress = append(net.Egress, 12.5e6), append(net.Ingress, 12.5e6)
			net.Pool = append(net.Pool, k)
		}
		net.Hosts = append(net.Hosts, sites[k].Hosts...)
	}
	for i := range net.Ceiling {
		net.Ceiling[i], net.Latency[i] = 12.5e6, 50*time.Microsecond
		if a, b := i/(2*hosts)/hosts, i%(2*hosts)/hosts; a != b {
			net.Ceiling[i], net.Latency[i], net.Pipe[a*2+b] = 1.25e5, 40*time.Millisecond, 1.25e5
		}
	}
	sizes := plan.AlltoallSizes{Uniform: size}
	bounds, err := net.AlltoallBounds(sizes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wan.Alltoall(net, sizes, bounds, nil, wan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var packets atomic.Int64 // that have more than an answer, both ways
	link := func(from, to string) gridnet.Link {
		return gridnet.Link{From: from, To: to, Rate: gridnet.Mbps, Latency: 40 * time.Millisecond}
	}
	cfg := Config{
		Net: gridnet.Config{
			Sites: sites,
			Links: []gridnet.Link{link("a", "b"), link("b", "a")},
			OnPacket: func(e gridnet.Event) {
				if e.Kind == gridnet.Crossed && e.Size > 200 {
					packets.Add(1)
				}
			},
		},
		Path: func(from, to string) exchange.Path {
			if from[0] == to[0] {
				return exchange.Path{}
			}
			return exchange.Path{RTT: 80 * time.Millisecond, Rate: 1.25e5, Flows: hosts}
		},
		PathMTU: true,
	}
	Run(t, cfg, func(c *Cluster) {
		c.Run(p)
		time.Sleep(time.Minute) // connections look for the size of packets
		packets.Store(0)
		c.Run(p)
		// Eight pairs of hosts, with eight blocks for each other.
		if got, least := packets.Load(), int64(2*hosts*2); got > least*5/4 {
			t.Errorf("%d packets crossed the links for %d bytes of blocks, want %d or a few more", got, 2*hosts*hosts*size, least)
		}
	})
}
