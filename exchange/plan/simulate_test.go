package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// homogeneous is one pool in which every port and every pair has the same rate.
func homogeneous(hosts []string, rate netmap.BytesPerSec, latency time.Duration) *Network {
	n := len(hosts)
	return &Network{Hosts: hosts, Pool: make([]int, n), Pipe: make([]netmap.BytesPerSec, 1),
		Egress: slices.Repeat([]netmap.BytesPerSec{rate}, n), Ingress: slices.Repeat([]netmap.BytesPerSec{rate}, n),
		Ceiling: slices.Repeat([]netmap.BytesPerSec{rate}, n*n), Latency: slices.Repeat([]time.Duration{latency}, n*n)}
}

// twoSites has k hosts a site, ports of 1000 B/s, a pipe of pipe B/s each way, and a ceiling a flow.
func twoSites(k int, pipe, ceiling netmap.BytesPerSec, latency time.Duration) *Network {
	net := homogeneous(hostNames(2*k), 1000, 0)
	net.Pipe = []netmap.BytesPerSec{0, pipe, pipe, 0}
	for i := range 2 * k {
		net.Pool[i] = i / k
		for j := range 2 * k {
			if i/k != j/k {
				net.Ceiling[i*2*k+j], net.Latency[i*2*k+j] = ceiling, latency
			}
		}
	}
	return net
}

func close12(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }

// sim runs p and fails the test on an error.
func sim(t *testing.T, p *Plan, net *Network, opts SimOptions) *SimResult {
	t.Helper()
	r, err := Simulate(p, net, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func alltoall(n int, bytes int64) *Plan {
	return &Plan{Collective: Alltoall, Hosts: hostNames(n), MessageBytes: bytes}
}

// TestSimulateClosedForms compares with times worked out by hand: L latency, m bytes, B rate.
func TestSimulateClosedForms(t *testing.T) {
	ms := 100 * time.Millisecond
	tests := []struct {
		name string
		net  *Network
		opts SimOptions
		plan func(p *Plan)
		size int64
		ends []float64
	}{
		{"one transfer: L + m/B", homogeneous(hostNames(4), 1000, ms), SimOptions{}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 1}})
		}, 500, []float64{0.6}},
		{"one transfer in chunks takes as long", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 7}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 1}})
		}, 500, []float64{0.6}},
		{"two share a port out", homogeneous(hostNames(4), 1000, ms), SimOptions{}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 1}})
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
		}, 500, []float64{1.1, 1.1}},
		{"two share a port in", homogeneous(hostNames(4), 1000, 0), SimOptions{}, func(p *Plan) {
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
			p.add(1, 2, []Block{{Origin: 1, Dest: 2}})
		}, 500, []float64{1, 1}},
		{"two to one destination in turn", homogeneous(hostNames(4), 1000, ms), SimOptions{}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 1}})
			p.add(0, 1, []Block{{Origin: 0, Dest: 2}})
		}, 500, []float64{0.6, 1.1}},
		{"two share a pipe", twoSites(2, 100, 1000, 0), SimOptions{}, func(p *Plan) {
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
			p.add(1, 3, []Block{{Origin: 1, Dest: 3}})
		}, 500, []float64{10, 10}},
		{"the pipe back is another one", twoSites(2, 100, 1000, 0), SimOptions{}, func(p *Plan) {
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
			p.add(3, 1, []Block{{Origin: 3, Dest: 1}})
		}, 500, []float64{5, 5}},
		{"a ceiling leaves room in the pipe", twoSites(2, 100, 50, 0), SimOptions{}, func(p *Plan) {
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
			p.add(1, 3, []Block{{Origin: 1, Dest: 3}})
		}, 500, []float64{10, 10}},
		{"the second gets the whole pipe when the first is done", twoSites(2, 100, 1000, 0), SimOptions{}, func(p *Plan) {
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}}) // 500 B
			p.add(1, 3, []Block{{Origin: 1, Dest: 3}, {Origin: 1, Dest: 2}})
		}, 500, []float64{10, 15}},
		{"max-min: the slow one's share goes to the other", func() *Network {
			net := twoSites(2, 100, 1000, 0)
			net.Ceiling[0*4+2] = 20
			return net
		}(), SimOptions{}, func(p *Plan) {
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}}) // 20 B/s
			p.add(1, 3, []Block{{Origin: 1, Dest: 3}}) // 80 B/s
		}, 500, []float64{25, 6.25}},
		{"store and forward: k(L + m/B)", homogeneous(hostNames(4), 1000, ms), SimOptions{}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 3}})
			p.add(1, 2, []Block{{Origin: 0, Dest: 3}}, 0)
			p.add(2, 3, []Block{{Origin: 0, Dest: 3}}, 1)
		}, 500, []float64{0.6, 1.2, 1.8}},
		{"pipelined chain: kL + m/B + (k-1)c/B", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 50}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 3}})
			p.add(1, 2, []Block{{Origin: 0, Dest: 3}}, 0)
			p.add(2, 3, []Block{{Origin: 0, Dest: 3}}, 1)
		}, 500, []float64{0.6, 0.75, 0.9}},
		{"the second block of a transfer comes behind the first", homogeneous(hostNames(4), 1000, 0), SimOptions{Chunk: 50}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 2}, {Origin: 0, Dest: 3}}) // block 0→3 from 0.5 s on
			p.add(1, 3, []Block{{Origin: 0, Dest: 3}}, 0)
			p.add(1, 2, []Block{{Origin: 0, Dest: 2}}, 0)
		}, 500, []float64{1, 1.05, 0.55}},
		{"a synchronisation holds chunks back", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 50}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 3}})
			p.add(1, 2, []Block{{Origin: 1, Dest: 2}}, 0)
		}, 500, []float64{0.6, 1.2}},
		{"and the news of it travels", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 50, Notice: true}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 3}})
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}}, 0) // n0 hears from n1
		}, 500, []float64{0.6, 1.3}},
		{"a sender tells when the last byte has left", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 50, Notice: true}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 3}})
			p.add(2, 3, []Block{{Origin: 2, Dest: 3}}, 0) // n2 hears from n0
			p.Transfers[1].Sync = SyncSender
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}}, 0)
			p.Transfers[2].Sync = SyncSender
		}, 500, []float64{0.6, 1.2, 1.1}},
		{"so does one that sends a dummy behind it", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 50, Notice: true}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 3}})
			p.add(2, 3, []Block{{Origin: 2, Dest: 3}}, 0) // n2 has the dummy of n0
			p.Transfers[1].Sync = SyncDummy
			p.add(0, 2, []Block{{Origin: 0, Dest: 2}}, 0) // n0 goes on
			p.Transfers[2].Sync = SyncDummy
			p.add(1, 2, []Block{{Origin: 1, Dest: 2}}, 0) // n1 has all of it
			p.Transfers[3].Sync = SyncDummy
		}, 500, []float64{0.6, 1.2, 1.5, 1.6}},
		{"with a lead the news travel before the end", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 50, Notice: true}, func(p *Plan) {
			p.Sync = &Claim{Kind: SyncReceiver, Lead: 100}
			p.add(0, 1, []Block{{Origin: 0, Dest: 1}})
			p.add(2, 1, []Block{{Origin: 2, Dest: 1}}, 0) // n2 hears at 0.6 s from n1 of 400 bytes
			p.add(2, 3, []Block{{Origin: 2, Dest: 3}}, 1) // n2 knows that the last byte has left
		}, 500, []float64{0.6, 1.2, 1.7}},
		{"a strict queue waits", homogeneous(hostNames(4), 1000, 0), SimOptions{}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 2}})
			p.add(1, 2, []Block{{Origin: 0, Dest: 2}}, 0)
			p.add(1, 2, []Block{{Origin: 1, Dest: 2}})
		}, 500, []float64{0.5, 1, 1.5}},
		{"overtaking does not", homogeneous(hostNames(4), 1000, 0), SimOptions{Overtake: true}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 2}})
			p.add(1, 2, []Block{{Origin: 0, Dest: 2}}, 0)
			p.add(1, 2, []Block{{Origin: 1, Dest: 2}})
		}, 500, []float64{0.5, 1, 0.5}},
		{"nothing takes a latency", homogeneous(hostNames(4), 1000, ms), SimOptions{Chunk: 8}, func(p *Plan) {
			p.add(0, 1, []Block{{Origin: 0, Dest: 2}})
			p.add(1, 2, []Block{{Origin: 0, Dest: 2}, {Origin: 1, Dest: 2}}, 0)
		}, 0, []float64{0.1, 0.2}},
	}
	for _, tt := range tests {
		p := alltoall(4, tt.size)
		tt.plan(p)
		r := sim(t, p, tt.net, tt.opts)
		for i, want := range tt.ends {
			if !close12(r.End[i], want) {
				t.Errorf("%s: transfer %d ends at %v, want %v", tt.name, i, r.End[i], want)
			}
		}
		if r.Makespan != slices.Max(r.End) {
			t.Errorf("%s: makespan %v of ends %v", tt.name, r.Makespan, r.End)
		}
	}
}

// ring is the allgather over a logical ring: in step k a host passes on what it received in step k-1.
func ring(n int, m int64) *Plan {
	p := &Plan{Collective: Allgather, Algorithm: "ring", Hosts: hostNames(n), MessageBytes: m}
	for k := range n - 1 {
		for i := range n {
			var after []int
			if k > 0 {
				after = []int{(k-1)*n + (i-1+n)%n}
			}
			p.add(i, (i+1)%n, []Block{{Origin: (i - k + n) % n, Dest: All}}, after...)
		}
	}
	return p
}

// TestSimulateRing: (N-1)(L + m/B) with whole blocks (Gupta & Vadhiyar, §2). With
// chunks the latency hides behind the block that is still being sent, while L + c/B <= m/B.
func TestSimulateRing(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7, 13, 32} {
		net := homogeneous(hostNames(n), 1e6, time.Millisecond)
		p := ring(n, 1e4)
		if err := Verify(p, Rules{}); err != nil {
			t.Fatal(err)
		}
		if got, want := sim(t, p, net, SimOptions{}).Makespan, float64(n-1)*(0.001+0.01); !close12(got, want) {
			t.Errorf("n=%d: %v, want %v", n, got, want)
		}
		want := 0.0
		if n > 1 {
			want = float64(n-1)*0.01 + 0.001
		}
		if got := sim(t, p, net, SimOptions{Chunk: 1000}).Makespan; !close12(got, want) {
			t.Errorf("n=%d in chunks: %v, want %v", n, got, want)
		}
	}
}

// TestSimulateInvariants: for random valid plans over random grids the makespan never
// is under the bound, the stamped plan passes the verifier, bytes are conserved,
// a second run gives the same bits, and a store-and-forward run is causal to the letter.
func TestSimulateInvariants(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 2 + rng.IntN(9)
		pools := randomPools(rng, n)
		snapshot := randomSnapshot(rng, n, pools)
		sizes := randomSizes(rng, n)
		p := randomAllgather(rng, n, pools, sizes)
		net, err := NetworkOf(snapshot, pools, rng.IntN(4))
		if err != nil {
			t.Fatal(err)
		}
		bound, err := SnapshotBound(snapshot, pools, sizes)
		if err != nil {
			t.Fatal(err)
		}
		opts := SimOptions{Overtake: rng.IntN(2) == 0, Notice: rng.IntN(2) == 0}
		if rng.IntN(3) > 0 {
			opts.Chunk = 1 << (12 + rng.IntN(8))
		}
		r := sim(t, p, net, opts)
		if r.Makespan < bound.Seconds*(1-1e-9) {
			t.Fatalf("seed %d: %v s is under the bound, %v", seed, r.Makespan, bound)
		}
		var carried, counted int64
		for i := range p.Transfers {
			carried += p.Bytes(&p.Transfers[i])
		}
		for _, b := range r.PoolBytes {
			counted += b
		}
		if carried != counted {
			t.Fatalf("seed %d: %d bytes carried, %d counted", seed, carried, counted)
		}
		r.Stamp(p)
		if err := Verify(p, Rules{Pools: pools, Chunked: opts.Chunk > 0}); err != nil {
			t.Fatalf("seed %d, %+v: as predicted: %v", seed, opts, err)
		}
		again := sim(t, p, net, opts)
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("seed %d: a second run differs", seed)
		}
	}
}

// relabel gives the transfers of p other numbers: plan order then contradicts After.
func relabel(rng *rand.Rand, p *Plan) {
	number := rng.Perm(len(p.Transfers))
	out := make([]Transfer, len(p.Transfers))
	for i, t := range p.Transfers {
		t.ID = number[i]
		for k, a := range t.After {
			t.After[k] = number[a]
		}
		out[t.ID] = t
	}
	p.Transfers = out
}

// TestAnyNumbering: with transfers in any order a valid plan stays valid, strict queues
// do not deadlock, and [Plan.Order] respects After.
func TestAnyNumbering(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 11))
		n := 2 + rng.IntN(7)
		pools := randomPools(rng, n)
		p := randomAllgather(rng, n, pools, randomSizes(rng, n))
		relabel(rng, p)
		if err := Verify(p, Rules{Pools: pools}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		order, err := p.Order()
		if err != nil {
			t.Fatal(err)
		}
		place := make([]int, len(order))
		for k, i := range order {
			place[i] = k + 1
		}
		for i := range p.Transfers {
			for _, a := range p.Transfers[i].After {
				if place[i] == 0 || place[a] > place[i] {
					t.Fatalf("seed %d: %d stands before %d, which it comes after: %v", seed, i, a, order)
				}
			}
		}
		for _, chunk := range []int64{0, 1 << 14} {
			if _, err := Simulate(p, homogeneous(p.Hosts, 1e6, time.Millisecond), SimOptions{Chunk: chunk}); err != nil {
				t.Fatalf("seed %d, chunk %d: %v", seed, chunk, err)
			}
		}
	}
}

// TestChunkedTimes: times of chunks that stream through break the rule for whole
// blocks and keep that for chunks, until one says that it ends before its own source.
func TestChunkedTimes(t *testing.T) {
	p := ring(3, 1000)
	sim(t, p, homogeneous(p.Hosts, 1000, time.Second), SimOptions{Chunk: 10}).Stamp(p)
	if err := Verify(p, Rules{}); property(t, err) != Causal {
		t.Errorf("as whole blocks: %v", err)
	}
	if err := Verify(p, Rules{Chunked: true}); err != nil {
		t.Errorf("as chunks: %v", err)
	}
	p.Transfers[3].End = p.Transfers[2].End - 1e-3
	if err := Verify(p, Rules{Chunked: true}); property(t, err) != Causal {
		t.Errorf("ended before its source: %v", err)
	}
}

// TestSimulatePoolBytes: each block of a plan that is wide-area optimal crosses into each other pool once.
func TestSimulatePoolBytes(t *testing.T) {
	p := ring(4, 100) // n0 n1 | n2 n3: n1→n2 carries 0,1,3 and n3→n0 carries 1,2,3
	r := sim(t, p, twoSites(2, 100, 100, 0), SimOptions{})
	if want := []int64{300, 300, 300, 300}; !slices.Equal(r.PoolBytes, want) {
		t.Errorf("got %v, want %v", r.PoolBytes, want)
	}
}

func TestSimulateErrors(t *testing.T) {
	good := func() (*Plan, *Network) { return ring(3, 100), homogeneous(hostNames(3), 1000, 0) }
	tests := []struct {
		name   string
		change func(p *Plan, n *Network, o *SimOptions)
		is     error
		says   string
	}{
		{"not measured", func(_ *Plan, n *Network, _ *SimOptions) { n.Ceiling[0*3+1] = 0 }, netmap.ErrNotMeasured, "transfer 0, n0→n1"},
		{"never held", func(p *Plan, _ *Network, _ *SimOptions) {
			p.Transfers = p.Transfers[:0]
			p.add(0, 1, []Block{{Origin: 2, Dest: All}})
		}, ErrStalled, "transfer 0: n0 never holds block of n2"},
		{"data in a circle", func(p *Plan, _ *Network, _ *SimOptions) {
			p.Transfers = p.Transfers[:0]
			p.add(0, 1, []Block{{Origin: 2, Dest: All}})
			p.add(1, 0, []Block{{Origin: 2, Dest: All}})
		}, ErrStalled, "waits for ever"},
		{"cycle", func(p *Plan, _ *Network, _ *SimOptions) { p.Transfers[0].After = []int{0} }, nil, "acyclic"},
		{"malformed", func(p *Plan, _ *Network, _ *SimOptions) { p.Transfers[0].Dst = 9 }, nil, "dst: 9"},
		{"other hosts", func(_ *Plan, n *Network, _ *SimOptions) { n.Hosts = []string{"n0", "n2", "n1"} }, nil, "same order"},
		{"short network", func(_ *Plan, n *Network, _ *SimOptions) { n.Egress = n.Egress[:2] }, nil, "2+3 ports"},
		{"pool", func(_ *Plan, n *Network, _ *SimOptions) { n.Pool[1] = 1 << 40 }, nil, "host 1 in pool"},
		{"rate", func(_ *Plan, n *Network, _ *SimOptions) { n.Ingress[1] = -1 }, nil, "-1 B/s"},
		{"latency", func(_ *Plan, n *Network, _ *SimOptions) { n.Latency[1] = -1 }, nil, "-1ns"},
		{"chunk", func(_ *Plan, _ *Network, o *SimOptions) { o.Chunk = -1 }, nil, "chunk of -1"},
		{"too many chunks", func(p *Plan, _ *Network, o *SimOptions) { o.Chunk, p.MessageBytes = 1, maxBytes }, nil, "choose larger ones"},
	}
	for _, tt := range tests {
		for _, chunk := range []int64{0, 64} {
			p, net := good()
			opts := SimOptions{Chunk: chunk}
			tt.change(p, net, &opts)
			_, err := Simulate(p, net, opts)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s, chunk %d: got %v, want %v that says %q", tt.name, chunk, err, tt.is, tt.says)
			}
		}
	}
}
