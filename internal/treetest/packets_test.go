package treetest

import (
	"fmt"
	"slices"
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
	const hosts, size = 8, 256
	var packets atomic.Int64 // that have more than an answer, both ways
	p, cfg := overLink(t, []int{hosts, hosts}, 1, 40*time.Millisecond, size, func(e gridnet.Event) {
		if e.Size > 200 {
			packets.Add(1)
		}
	})
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

// TestBriefAlltoall: an alltoall that the queue of a slow link has room for goes without windows, in whole packets, whose last one ends the stream, beside a third of the others that there are with windows.
func TestBriefAlltoall(t *testing.T) {
	const size = 2 << 10
	var packets atomic.Int64
	p, cfg := overLink(t, []int{4, 2}, 1.23, 1900*time.Microsecond, size, func(gridnet.Event) { packets.Add(1) })
	const bytes, data = 4 * 2 * size, 2 * 4 * 3 // each way; in packets of 1,390 bytes for the host that has 4 KiB for one of the other site
	least := netmap.BytesPerSec(1.23e6 / 8).Time(bytes)
	Run(t, cfg, func(c *Cluster) {
		c.Run(p)
		time.Sleep(time.Minute)
		for range 3 {
			packets.Store(0)
			got := c.Run(p)
			time.Sleep(time.Second)
			n := packets.Load()
			t.Logf("%d packets, %.3f times the least time", n, got.Makespan.Seconds()/least.Seconds())
			if n > 7*data/2 || got.Makespan > least*110/100 { // 160 to 177 packets and 1.19 times with windows; 80 to 99 and 1.09 without; 62 to 76 and 1.085 where ends go with data
				t.Errorf("%d packets and %v; want %d with data, two and a half times as many without at most, and 1.1 times %v", n, got.Makespan, data, least)
			}
		}
	})
}

// TestBriefLosses: of what went at once, with its end, QUIC repairs what is lost, and a stream that ends is no reason to send it again.
func TestBriefLosses(t *testing.T) {
	const size = 2 << 10
	p, cfg := overLink(t, []int{4, 2}, 1.23, 1900*time.Microsecond, size, func(gridnet.Event) {})
	for i := range cfg.Net.Links { // of which the paths know nothing
		cfg.Net.Links[i].Loss = 0.05
	}
	least := netmap.BytesPerSec(1.23e6 / 8).Time(4 * 2 * size)
	Run(t, cfg, func(c *Cluster) {
		c.Run(p)
		time.Sleep(time.Minute)
		for range 20 {
			got := c.Run(p)
			if got.Resent > 0 {
				t.Errorf("engines sent %d bytes again, want none", got.Resent)
			}
			t.Logf("%d packets lost, %.3f times the least time", got.Lost, got.Makespan.Seconds()/least.Seconds())
			if got.Makespan > 15*least { // 1.09 to 1.4 mostly, 4.6 seen; probe timeouts double
				t.Errorf("%v, want 15 times %v at most", got.Makespan, least)
			}
			time.Sleep(time.Second)
		}
	})
}

// overLink returns an alltoall of blocks of so many bytes between two sites of so many hosts with a link of so many Mbit/s each way, and their grid. crossed is told of each packet that
// crosses the link.
func overLink(t *testing.T, hosts []int, mbps float64, oneWay time.Duration, size int64, crossed func(gridnet.Event)) (*plan.Plan, Config) {
	t.Helper()
	n := hosts[0] + hosts[1]
	rate := netmap.BytesPerSec(mbps * 1e6 / 8)
	net := &plan.Network{Pipe: make([]netmap.BytesPerSec, 4), Latency: make([]time.Duration, n*n), Ceiling: make([]netmap.BytesPerSec, n*n)}
	var sites []gridnet.Site
	for k, site := range []string{"a", "b"} {
		sites = append(sites, gridnet.Site{Name: site})
		for i := range hosts[k] {
			sites[k].Hosts = append(sites[k].Hosts, fmt.Sprint(site, i))
			net.Egress, net.Ingress = append(net.Egress, 12.5e6), append(net.Ingress, 12.5e6)
			net.Pool = append(net.Pool, k)
		}
		net.Hosts = append(net.Hosts, sites[k].Hosts...)
	}
	for i := range net.Ceiling {
		net.Ceiling[i], net.Latency[i] = 12.5e6, 50*time.Microsecond
		if a, b := net.Pool[i/n], net.Pool[i%n]; a != b {
			net.Ceiling[i], net.Latency[i], net.Pipe[a*2+b] = rate, oneWay, rate
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
	link := func(from, to string) gridnet.Link {
		return gridnet.Link{From: from, To: to, Rate: gridnet.Rate(mbps * float64(gridnet.Mbps)), Latency: oneWay}
	}
	return p, Config{
		Net: gridnet.Config{
			Sites: sites,
			Links: []gridnet.Link{link("a", "b"), link("b", "a")},
			OnPacket: func(e gridnet.Event) {
				if e.Kind == gridnet.Crossed {
					crossed(e)
				}
			},
		},
		Path: func(from, to string) exchange.Path {
			if from[0] == to[0] {
				return exchange.Path{}
			}
			return exchange.Path{RTT: 2 * oneWay, Rate: rate, Flows: slices.Max(hosts)}
		},
		PathMTU: true,
	}
}

// TestSteadyBelief: what goes steadily over a link that carries less than is believed, or more, takes little longer for it than it must, mostly; also where the link is far and it takes two round trips.
func TestSteadyBelief(t *testing.T) {
	const mbps, mostOnce = 4, 2.2
	for _, tt := range []struct {
		oneWay         time.Duration
		size           int64
		believed, most float64
	}{
		// In 60 runs 1.21, 1.13, 1.44, 1.36 and 1.26 at most; single operations took up to 1.28, 1.18, 1.71, 1.89 and 1.70.
		{20 * time.Millisecond, 48 << 10, 1, 1.3}, {20 * time.Millisecond, 48 << 10, 0.8, 1.2}, {20 * time.Millisecond, 48 << 10, 1.25, 1.6},
		{20 * time.Millisecond, 48 << 10, 2, 1.6}, {20 * time.Millisecond, 48 << 10, 4, 1.6},
		{50 * time.Millisecond, 6 << 10, 1, 1.37}, {50 * time.Millisecond, 6 << 10, 1.25, 1.37}, {50 * time.Millisecond, 6 << 10, 2, 1.37}, // 1.32 at most
	} {
		least := netmap.BytesPerSec(mbps * 1e6 / 8).Time(4 * 4 * tt.size) // without the way, a quarter of it where that is long
		p, cfg := overLink(t, []int{4, 4}, mbps, tt.oneWay, tt.size, func(gridnet.Event) {})
		path := cfg.Path
		cfg.Path = func(from, to string) exchange.Path {
			p := path(from, to)
			p.Rate *= netmap.BytesPerSec(tt.believed)
			return p
		}
		Run(t, cfg, func(c *Cluster) {
			c.Run(p)
			time.Sleep(time.Minute)
			var ratios []float64
			for range 3 {
				got := c.Run(p)
				ratios = append(ratios, got.Makespan.Seconds()/least.Seconds())
				t.Logf("%v, believed %.2f times as fast: %.3f times the least time, %d packets lost", tt.oneWay, tt.believed, ratios[len(ratios)-1], got.Lost)
				time.Sleep(10 * time.Second)
			}
			slices.Sort(ratios)
			if middle, worst := ratios[1], ratios[2]; middle > tt.most || worst > mostOnce {
				t.Errorf("%v, believed %.2f times as fast: %.3f times the least time in the middle of three and %.3f at worst, want at most %.2f and %.2f", tt.oneWay, tt.believed, middle, worst, tt.most, mostOnce)
			}
		})
	}
}
