package plan

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// chain is switches s0 – s1 – … with the given numbers of hosts, links of 1000 B/s.
func chain(t *testing.T, hosts ...int) *Topology {
	t.Helper()
	var switches []string
	var links [][2]int
	var home []int
	for s, k := range hosts {
		switches = append(switches, "s"+string(rune('0'+s)))
		if s > 0 {
			links = append(links, [2]int{s - 1, s})
		}
		for range k {
			home = append(home, s)
		}
	}
	topo, err := NewTopology(switches, links, hostNames(len(home)), home, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func networkOf(t *testing.T, topo *Topology, latency time.Duration) *Network {
	t.Helper()
	net, err := NetworkOfTopology(topo, latency)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// TestTopologyBounds: on a tree of one rate the alltoall bound is the load of the
// busiest link (Faraj, Yuan & Patarasuk §2) and the allgather bound N−1 blocks into any host.
func TestTopologyBounds(t *testing.T) {
	for _, tt := range []struct {
		hosts    []int
		alltoall float64 // messages over the busiest link
		over     string
	}{
		{[]int{5}, 4, "host"},
		{[]int{3, 3}, 9, "s0→s1"},
		{[]int{4, 2}, 8, "s0→s1"},
		{[]int{2, 0, 3}, 6, "→s"},
		{[]int{2, 2, 2}, 8, "s0→s1"},
		{[]int{1, 1}, 1, "host"},
		{[]int{0, 4, 0}, 3, "host"},
	} {
		net := networkOf(t, chain(t, tt.hosts...), 0)
		got, err := net.AlltoallBound(AlltoallSizes{Uniform: 500})
		if err != nil {
			t.Fatal(err)
		}
		if !close12(got.Seconds, tt.alltoall/2) || !strings.Contains(got.String(), tt.over) {
			t.Errorf("%v: alltoall bound %v, want %v s because of %s", tt.hosts, got, tt.alltoall/2, tt.over)
		}
		n := len(net.Hosts)
		sizes := make([]int64, n)
		for i := range sizes {
			sizes[i] = 500
		}
		if got, err = net.AllgatherBound(sizes); err != nil || !close12(got.Seconds, float64(n-1)/2) {
			t.Errorf("%v: allgather bound %v, %v, want %v s", tt.hosts, got, err, float64(n-1)/2)
		}
	}
}

// TestAllgatherBoundOfTrunk: a slow trunk binds where ports do not.
func TestAllgatherBoundOfTrunk(t *testing.T) {
	net := networkOf(t, chain(t, 3, 1), 0)
	for k := range net.Trunks {
		net.Trunks[k].Rate = 100
	}
	got, err := net.AllgatherBound([]int64{10, 20, 30, 1000})
	if err != nil || got.Trunk == nil || got.Trunk.From != "s1" || !close12(got.Seconds, 10) {
		t.Errorf("got %v, %v, want 10 s: 1000 bytes over s1→s0", got, err)
	}
}

// TestSimulateTrunk: two flows share the link between two switches, one each way does not.
func TestSimulateTrunk(t *testing.T) {
	net := networkOf(t, chain(t, 2, 2), 100*time.Millisecond)
	p := alltoall(4, 500)
	p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
	p.add(1, 3, []Block{{Origin: 1, Dest: 3}})
	p.add(2, 1, []Block{{Origin: 2, Dest: 1}})
	r := sim(t, p, net, SimOptions{})
	for i, want := range []float64{1.1, 1.1, 0.6} {
		if !close12(r.End[i], want) {
			t.Errorf("transfer %d ends at %v, want %v", i, r.End[i], want)
		}
	}
}

// TestAlltoallBoundHolds: no random plan on a random tree or grid beats the bound.
func TestAlltoallBoundHolds(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 21))
		var net *Network
		if rng.IntN(2) == 0 {
			net = networkOf(t, chain(t, 1+rng.IntN(3), rng.IntN(3), 1+rng.IntN(3)), time.Duration(rng.IntN(3))*time.Millisecond)
		} else {
			n := 2 + rng.IntN(6)
			pools := randomPools(rng, n)
			var err error
			if net, err = NetworkOf(randomSnapshot(rng, n, pools), pools, 1+rng.IntN(3)); err != nil {
				t.Fatal(err)
			}
		}
		p := randomAlltoall(rng, len(net.Hosts))
		p.Hosts = net.Hosts
		bound, err := net.AlltoallBound(AlltoallSizes{Uniform: p.MessageBytes, Matrix: p.Matrix})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r := sim(t, p, net, SimOptions{Chunk: int64(rng.IntN(2)) << 14})
		if r.Makespan < bound.Seconds*(1-1e-9) {
			t.Fatalf("seed %d: %v s is under the bound, %v", seed, r.Makespan, bound)
		}
		if bound.Seconds == 0 && p.moves() {
			t.Fatalf("seed %d: no bound for a plan that moves bytes", seed)
		}
	}
}

// TestAlltoallBoundCuts: with more pools than every subset is tried for, the sets of
// one and of all but one still bind.
func TestAlltoallBoundCuts(t *testing.T) {
	for _, n := range []int{3, 16, 17} {
		net := homogeneous(hostNames(n), 1e9, 0)
		net.Pipe = make([]netmap.BytesPerSec, n*n)
		for i := range n {
			net.Pool[i] = i
			for j := range n {
				net.Pipe[i*n+j] = 1e6
				if j == 1 {
					net.Pipe[i*n+j] = 1000
				}
			}
		}
		got, err := net.AlltoallBound(AlltoallSizes{Uniform: 500})
		if err != nil || len(got.Set) != 1 || got.Set[0] != 1 || !close12(got.Seconds, 0.5) {
			t.Errorf("%d pools: %v, %v, want 0.5 s into pool 1", n, got, err)
		}
		for i := range n {
			net.Pipe[i*n+1] = 0
		}
		if _, err := net.AlltoallBound(AlltoallSizes{Uniform: 500}); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%d pools, one cut off: %v", n, err)
		}
	}
}

func TestNetworkOfTopologyNeedsARate(t *testing.T) {
	topo, err := NewTopology([]string{"s"}, nil, []string{"a", "b"}, []int{0, 0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NetworkOfTopology(topo, 0); err == nil || !strings.Contains(err.Error(), "bandwidth_mbps") {
		t.Errorf("got %v", err)
	}
}
