package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

// bruteBound tries every set of pools and every host.
func bruteBound(in BoundInput) float64 {
	best := 0.0
	for _, h := range in.Hosts {
		if h.Incoming > 0 {
			best = max(best, float64(h.Incoming)/float64(h.Port))
		}
	}
	for mask := 1; mask < 1<<len(in.Bytes); mask++ {
		var bytes, rate float64
		for a := range in.Bytes {
			if mask>>a&1 == 1 {
				continue
			}
			bytes += float64(in.Bytes[a])
			for b := range in.Bytes {
				if mask>>b&1 == 1 {
					rate += float64(in.Capacity[a][b])
				}
			}
		}
		if bytes > 0 {
			best = max(best, bytes/rate)
		}
	}
	return best
}

func TestBoundAgainstBruteForce(t *testing.T) {
	sets, unreachable := make(map[int]int), 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		n := 1 + rng.IntN(10)
		in := BoundInput{Bytes: make([]int64, n), Capacity: make([][]netmap.BytesPerSec, n)}
		for a := range n {
			in.Bytes[a] = rng.Int64N(1 << uint(1+rng.IntN(40)))
			in.Capacity[a] = make([]netmap.BytesPerSec, n)
			for b := range n {
				if rng.IntN(4) > 0 { // rates over nine orders of magnitude
					in.Capacity[a][b] = netmap.BytesPerSec(math.Exp(rng.Float64() * 21))
				}
			}
		}
		if rng.IntN(4) == 0 {
			in.Hosts = append(in.Hosts, HostPortInput{Incoming: rng.Int64N(1 << 40), Port: netmap.BytesPerSec(1 + rng.Float64()*1e9)})
		}
		want := bruteBound(in)
		got, err := AllgatherBound(in)
		if math.IsInf(want, 1) {
			unreachable++
			if !errors.Is(err, ErrUnreachable) {
				t.Fatalf("seed %d: got %v, %v, want unreachable", seed, got, err)
			}
			continue
		}
		if err != nil || math.Abs(got.Seconds-want) > 1e-12*want {
			t.Fatalf("seed %d: got %v, %v, want %v s", seed, got, err, want)
		}
		if got.Set != nil {
			sets[len(got.Set)]++
			if bytes, rate := in.ratio(got.Set); got.Bytes != bytes || got.Rate != rate || float64(bytes)/float64(rate) != got.Seconds {
				t.Fatalf("seed %d: %v does not explain itself: %d bytes at %v", seed, got, bytes, rate)
			}
		}
	}
	if unreachable == 0 || sets[1] == 0 || sets[2] == 0 || sets[3] == 0 {
		t.Errorf("unreachable %d times, binding sets by size %v: the test does not reach all cases", unreachable, sets)
	}
}

// TestBoundPaperGrid computes the bound of the 3-site grid of Gupta & Vadhiyar (Tables
// 1-2) at 64 KiB by hand: all of UK's and NTH's blocks must get into UT over 1.28 + 1.16
// Mbit/s, which is slower than UT's blocks into {UK, NTH} or any single site.
func TestBoundPaperGrid(t *testing.T) {
	const m = 65536
	mbps := func(v float64) netmap.BytesPerSec { return netmap.BytesPerSec(v) * netmap.Mbps }
	got, err := AllgatherBound(BoundInput{
		Bytes:    []int64{8 * m, 4 * m, 8 * m},
		Capacity: [][]netmap.BytesPerSec{{0, mbps(1.44), mbps(1.25)}, {mbps(1.28), 0, mbps(4.75)}, {mbps(1.16), mbps(4.75), 0}},
	})
	if want := 12 * m / (2.44e6 / 8); err != nil || math.Abs(got.Seconds-want) > 1e-9 || !slices.Equal(got.Set, []int{0}) {
		t.Errorf("got %v, %v, want %.6f s", got, err, want)
	}
}

func TestSnapshotBound(t *testing.T) {
	// Two hosts and one: 10 Mbit/s between the sites, where one pair of the two measured 4.
	hosts := []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	est := make([]netmap.Estimate, 9)
	set := func(i, j int, mbps, all float64) {
		est[i*3+j] = netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLatency, Bandwidth: netmap.BytesPerSec(mbps) * netmap.Mbps}
		if all > 0 {
			est[i*3+j].Known |= netmap.FieldCapacity
			est[i*3+j].Capacity = netmap.BytesPerSec(all) * netmap.Mbps
		}
	}
	set(0, 1, 100, 0)
	set(1, 0, 100, 0)
	set(0, 2, 1, 10)
	set(1, 2, 1, 4)
	set(2, 0, 2, 20)
	s := netmap.NewSnapshot(1, hosts, est)
	pools := [][]int{{0, 1}, {2}}
	got, err := SnapshotBound(s, pools, []int64{1e6, 1e6, 1e6})
	if err != nil || math.Abs(got.Seconds-1.6) > 1e-12 { // 2 MB at 10 Mbit/s
		t.Fatalf("got %v, %v", got, err)
	}
	// The pipe into the second pool and the port of its only host bind alike; the host is found first.
	if why := got.Explain([]string{"a", "b", "c"}, pools); !strings.Contains(why, "2000000 bytes into host c at 10 Mbit/s") {
		t.Error(why)
	}
	for name, bad := range map[string][][]int{"twice": {{0, 1}, {1, 2}}, "none": {{0, 1}}, "outside": {{0, 1, 2, 3}}, "empty": {{0, 1, 2}, {}}} {
		if _, err := SnapshotBound(s, bad, make([]int64, 3)); err == nil {
			t.Errorf("%s: no partition, and no error", name)
		}
	}
}

func TestNetworkOf(t *testing.T) {
	est := make([]netmap.Estimate, 9)
	known := netmap.FieldBandwidth | netmap.FieldLatency
	est[0*3+2] = netmap.Estimate{Known: known | netmap.FieldCapacity, Bandwidth: 10, Capacity: 25, Latency: 5}
	est[1*3+2] = netmap.Estimate{Known: known | netmap.FieldCapacity, Bandwidth: 10, Capacity: 8, Latency: 5} // two probes disagree
	est[2*3+0] = netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: 99}                                 // no latency: not known
	s := netmap.NewSnapshot(1, []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, est)
	for lanes, want := range map[int]netmap.BytesPerSec{0: 10, 1: 10, 2: 20, 3: 25} {
		n, err := NetworkOf(s, [][]int{{0, 1}, {2}}, lanes)
		if err != nil {
			t.Fatal(err)
		}
		if n.Ceiling[0*3+2] != want || n.Ceiling[1*3+2] != 10 {
			t.Errorf("%d lanes: ceilings %v, %v", lanes, n.Ceiling[0*3+2], n.Ceiling[1*3+2])
		}
		if !slices.Equal(n.Pipe, []netmap.BytesPerSec{0, 25, 0, 0}) || !slices.Equal(n.Egress, []netmap.BytesPerSec{25, 10, 0}) || !slices.Equal(n.Ingress, []netmap.BytesPerSec{0, 0, 25}) {
			t.Errorf("pipes %v, ports out %v, in %v", n.Pipe, n.Egress, n.Ingress)
		}
	}
	if _, err := NetworkOf(s, [][]int{{0, 1, 2}}, -1); err == nil {
		t.Error("-1 lanes")
	}
}

// TestPortOfALoneHost: it carries all links where nobody says otherwise, and what is declared where that is less.
func TestPortOfALoneHost(t *testing.T) {
	for _, c := range []struct {
		port float64 // Mbit/s, 0: not declared
		want netmap.BytesPerSec
	}{{0, 100 * netmap.Mbps}, {60, 60 * netmap.Mbps}, {200, 100 * netmap.Mbps}} {
		hosts := []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "hub", PortMbps: c.port}}
		est := slices.Repeat([]netmap.Estimate{{Known: netmap.FieldBandwidth | netmap.FieldLatency, Bandwidth: 50 * netmap.Mbps, Latency: 1}}, 9)
		n, err := NetworkOf(netmap.NewSnapshot(1, hosts, est), [][]int{{0}, {1}, {2}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		guessed := []int{0, 1, 2}
		if c.port > 0 {
			guessed = []int{0, 1}
		}
		if n.Egress[2] != c.want || n.Ingress[2] != c.want || !slices.Equal(n.Guessed, guessed) {
			t.Errorf("%v Mbit/s declared: %v out, %v in, want %v; guessed %v, want %v", c.port, n.Egress[2], n.Ingress[2], c.want, n.Guessed, guessed)
		}
	}
}

// TestPorts: what exchanges got of a link several pairs of hosts got together. It is none of their ports', and no pair gets more than is declared of these.
func TestPorts(t *testing.T) {
	rated := netmap.FieldBandwidth | netmap.FieldLatency
	near := netmap.Estimate{Known: rated, Bandwidth: 105 * netmap.Mbps, Latency: 1}
	seen := netmap.Estimate{Known: rated | netmap.FieldCarried, Bandwidth: 100 * netmap.Mbps, Carried: 207 * netmap.Mbps, Latency: 1}
	all := netmap.Estimate{Known: rated | netmap.FieldCapacity, Bandwidth: 100 * netmap.Mbps, Capacity: 207 * netmap.Mbps, Latency: 1}
	for _, c := range []struct {
		name       string
		far        netmap.Estimate
		port       float64 // Mbit/s, 0: not declared
		want, link netmap.BytesPerSec
	}{
		{"carried", seen, 0, 105 * netmap.Mbps, 207 * netmap.Mbps},
		{"measured", all, 0, 207 * netmap.Mbps, 207 * netmap.Mbps},
		{"declared", all, 105, 105 * netmap.Mbps, 207 * netmap.Mbps},
		{"declared, faster", all, 300, 207 * netmap.Mbps, 207 * netmap.Mbps},
	} {
		hosts := []netmap.Host{{Name: "a0"}, {Name: "a1"}, {Name: "b0"}, {Name: "b1"}}
		est := make([]netmap.Estimate, 16)
		for i := range est {
			if est[i] = c.far; i/8 == i%4/2 {
				est[i] = near
			}
		}
		for h := range hosts {
			hosts[h].PortMbps = c.port
		}
		n, err := NetworkOf(netmap.NewSnapshot(1, hosts, est), [][]int{{0, 1}, {2, 3}}, 4)
		if err != nil {
			t.Fatal(err)
		}
		for h := range hosts {
			if n.Egress[h] != c.want || n.Ingress[h] != c.want {
				t.Errorf("%s: the port of %s carries %v out, %v in, want %v", c.name, hosts[h].Name, n.Egress[h], n.Ingress[h], c.want)
			}
		}
		if n.Pipe[1] != c.link || n.Ceiling[2] > c.want {
			t.Errorf("%s: a link of %v, want %v; one pair gets %v", c.name, n.Pipe[1], c.link, n.Ceiling[2])
		}
	}
}

func TestBoundRefuses(t *testing.T) {
	ok := func() BoundInput {
		return BoundInput{Bytes: []int64{1, 1}, Capacity: [][]netmap.BytesPerSec{{0, 1}, {1, 0}}, Hosts: []HostPortInput{{1, 1}}}
	}
	if _, err := AllgatherBound(ok()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*BoundInput){
		"negative bytes": func(in *BoundInput) { in.Bytes[1] = -1 },
		"too many bytes": func(in *BoundInput) { in.Bytes[0], in.Bytes[1] = maxTotal, maxTotal },
		"rows":           func(in *BoundInput) { in.Capacity = in.Capacity[:1] },
		"columns":        func(in *BoundInput) { in.Capacity[1] = nil },
		"NaN":            func(in *BoundInput) { in.Capacity[0][1] = netmap.BytesPerSec(math.NaN()) },
		"infinite":       func(in *BoundInput) { in.Capacity[0][1] = netmap.BytesPerSec(math.Inf(1)) },
		"port":           func(in *BoundInput) { in.Hosts[0].Port = -1 },
		"no port":        func(in *BoundInput) { in.Hosts[0].Port = 0 },
	} {
		in := ok()
		change(&in)
		if b, err := AllgatherBound(in); err == nil {
			t.Errorf("%s: %v", name, b)
		}
	}
	if b, err := AllgatherBound(BoundInput{}); err != nil || b.Seconds != 0 || b.Host != -1 {
		t.Errorf("no pools: %v, %v", b, err)
	}
}
