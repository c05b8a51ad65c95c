package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/packed"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/probe/netmap"
)

func TestChunkOf(t *testing.T) {
	const size = 1 << 20
	two := func(latency time.Duration, rate netmap.BytesPerSec) *netmap.Snapshot {
		hosts := []netmap.Host{{Name: "a", Site: "X"}, {Name: "b", Site: "X"}, {Name: "c", Site: "Y"}, {Name: "d", Site: "Y"}}
		est := make([]netmap.Estimate, 16)
		for i := range est {
			est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Bandwidth: 1000 * netmap.Mbps}
			if hosts[i/4].Site != hosts[i%4].Site {
				est[i].Latency, est[i].Bandwidth = latency, rate
			}
		}
		return netmap.NewSnapshot(1, hosts, est)
	}
	pieces := func(size int64) func(hosts []string, _ plan.AlltoallSizes) (*plan.Plan, error) {
		return func(hosts []string, _ plan.AlltoallSizes) (*plan.Plan, error) {
			p, err := baseline.Ring(hosts, slices.Repeat([]int64{size}, len(hosts)))
			if err == nil {
				p.Algorithm = packed.Name
			}
			return p, err
		}
	}
	const whole = 0 // as exchange.ChunkOf has it
	for _, tc := range []struct {
		name string
		make func(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error)
		snap *netmap.Snapshot
		want int
	}{
		{"a LAN", baseline.AlltoallSimple, two(50*time.Microsecond, netmap.Mbps), whole},
		{"a wide pipe", baseline.AlltoallSimple, two(50*time.Millisecond, 1000*netmap.Mbps), whole},
		{"4 flows share 100 kB", baseline.AlltoallSimple, two(50*time.Millisecond, 8*netmap.Mbps), 16 << 10},
		{"4 flows share 1 kB", baseline.AlltoallSimple, two(5*time.Millisecond, 0.8*netmap.Mbps), 1 << 10},
		{"small pieces, far", pieces(16 << 10), two(5*time.Millisecond, netmap.Mbps), 4 * 1390},
		{"large pieces, far", pieces(256 << 10), two(5*time.Millisecond, netmap.Mbps), 8 * 1390},
		{"pieces in a LAN", pieces(16 << 10), two(50*time.Microsecond, netmap.Mbps), whole},
		{"hosts that take turns", shuffle.Shift, two(50*time.Millisecond, 100*netmap.Mbps), whole},
		{"hosts that take turns on a slow link", shuffle.Shift, two(5*time.Millisecond, 0.8*netmap.Mbps), 16 << 10},
		{"a chunk in half a round trip", shuffle.Shift, two(50*time.Millisecond, 8*netmap.Mbps), 32 << 10},
	} {
		p, err := tc.make(tc.snap.Names(), plan.AlltoallSizes{Uniform: size})
		if err != nil {
			t.Fatal(err)
		}
		want := tc.want
		if want == whole {
			want = exchange.ChunkOf(p)
		}
		if got := ChunkOf(p, tc.snap); got != want {
			t.Errorf("%s: %d, want %d", tc.name, got, want)
		}
	}
}

// TestChunkBehindSlowFlow: what comes over a way that holds each flow goes on to a third site before all of it is there, however long the rings of the sites take in chunks.
func TestChunkBehindSlowFlow(t *testing.T) {
	var hosts []netmap.Host
	for _, site := range []string{"X", "Y", "Z"} {
		for i := range 4 {
			hosts = append(hosts, netmap.Host{Name: site + string(rune('0'+i)), Site: site})
		}
	}
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for i := range est {
		e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity, Latency: 5 * time.Millisecond, Bandwidth: 20 * netmap.Mbps, Capacity: 20 * netmap.Mbps}
		switch a, b := hosts[i/n].Site, hosts[i%n].Site; {
		case a == b:
			e.Latency, e.Bandwidth, e.Capacity = 50*time.Microsecond, 100*netmap.Mbps, 100*netmap.Mbps
		case a == "X" && b == "Y":
			e.Bandwidth = 2 * netmap.Mbps
		}
		est[i] = e
	}
	snap := netmap.NewSnapshot(1, hosts, est)
	p := &plan.Plan{Collective: plan.Allgather, Algorithm: "test", Hosts: snap.Names(), Sizes: slices.Repeat([]int64{16 << 10}, n)}
	at := make(map[[2]int]int) // the transfer that brought a host the block of another
	send := func(src, dst, origin int) {
		x := plan.Transfer{ID: len(p.Transfers), Src: src, Dst: dst, Phase: -1, Blocks: []plan.Block{{Origin: origin, Dest: plan.All}}}
		if src != origin {
			x.After = []int{at[[2]int{src, origin}]}
		}
		at[[2]int{dst, origin}] = x.ID
		p.Transfers = append(p.Transfers, x)
	}
	for i := range 4 { // X to Y, and on to Z
		send(i, 4+i, i)
		send(4+i, 8+i, i)
	}
	for site := range 3 {
		for step := range 3 {
			for i := range 4 {
				send(4*site+i, 4*site+(i+1)%4, 4*site+(i+4-step)%4)
			}
		}
	}
	if got, alike := ChunkOf(p, snap), exchange.ChunkOf(p); got >= alike {
		t.Errorf("chunks of %d bytes, and of %d where all ways are alike", got, alike)
	}
}

// TestChunksOfHeldLinks: where the network holds each flow of an alltoall across sites its chunks are small if it is short; where one flow fills the link, or it
// takes many seconds, they are not.
func TestChunksOfHeldLinks(t *testing.T) {
	for _, tc := range []struct {
		name           string
		flow, capacity netmap.BytesPerSec
		carried        bool // capacity is what exchanges were seen to get
		latency        time.Duration
		size           int64
		want           int
	}{
		{"one flow fills it", 10 * netmap.Mbps, 10 * netmap.Mbps, false, 20 * time.Millisecond, 64 << 10, farChunk},
		{"nobody has searched", 1 * netmap.Mbps, 0, false, 20 * time.Millisecond, 64 << 10, farChunk},
		{"held, 0.2 s", 1 * netmap.Mbps, 10 * netmap.Mbps, false, 20 * time.Millisecond, 64 << 10, leastFarChunk},
		{"held, as exchanges have seen", 1 * netmap.Mbps, 10 * netmap.Mbps, true, 20 * time.Millisecond, 64 << 10, leastFarChunk},
		{"held, 3 s", 1 * netmap.Mbps, 10 * netmap.Mbps, false, 20 * time.Millisecond, 1 << 20, 8 << 10},
		{"held, 13 s", 1 * netmap.Mbps, 10 * netmap.Mbps, false, 20 * time.Millisecond, 4 << 20, farChunk},
		{"held, but near", 1 * netmap.Mbps, 10 * netmap.Mbps, false, 50 * time.Microsecond, 64 << 10, farChunk},
	} {
		hosts := []netmap.Host{{Name: "a", Site: "X"}, {Name: "b", Site: "X"}, {Name: "c", Site: "Y"}, {Name: "d", Site: "Y"}}
		est := make([]netmap.Estimate, 16)
		for i := range est {
			est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Bandwidth: 1000 * netmap.Mbps}
			if hosts[i/4].Site == hosts[i%4].Site {
				continue
			}
			est[i].Latency, est[i].Bandwidth = tc.latency, tc.flow
			switch {
			case tc.carried:
				est[i].Known, est[i].Carried = est[i].Known|netmap.FieldCarried, tc.capacity
			case tc.capacity > 0:
				est[i].Known, est[i].Capacity = est[i].Known|netmap.FieldCapacity, tc.capacity
			}
		}
		snap := netmap.NewSnapshot(1, hosts, est)
		p, err := baseline.AlltoallSimple(snap.Names(), plan.AlltoallSizes{Uniform: tc.size})
		if err != nil {
			t.Fatal(err)
		}
		if got := endsSoonest(p, snap); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
		p.Algorithm = wan.Name
		if got := ChunkOf(p, snap); got < tc.want || tc.want < farChunk && got > max(tc.want, exchange.ChunkOf(p)) {
			t.Errorf("%s: chunks of %d", tc.name, got)
		}
	}
}
