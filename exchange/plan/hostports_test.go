package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestSimulatePortsKeepsTheModel: whatever the plan, the predicted times pass the
// verifier's host-port rules, and those of a plan that was scheduled for the model come
// out as they went in.
func TestSimulatePortsKeepsTheModel(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 31))
		n := 2 + rng.IntN(8)
		pools := randomPools(rng, n)
		snapshot := randomSnapshot(rng, n, pools)
		p := randomAllgather(rng, n, pools, randomSizes(rng, n))
		if rng.IntN(3) == 0 {
			p = randomAlltoall(rng, n)
		}
		duplex := []Duplex{HalfDuplex, FullDuplex}[rng.IntN(2)]
		r, err := SimulatePorts(p, snapshot, duplex)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r.Stamp(p)
		rules := Rules{Duplex: duplex, Snapshot: snapshot}
		if err := Verify(p, rules); err != nil {
			t.Fatalf("seed %d, %v: %v", seed, duplex, err)
		}
		again, err := SimulatePorts(p, snapshot, duplex)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Transfers {
			if math.Abs(again.Start[i]-r.Start[i]) > 1e-12 || math.Abs(again.End[i]-r.End[i]) > 1e-12 {
				t.Fatalf("seed %d, %v: transfer %d was %v … %v, with its own times %v … %v", seed, duplex, i, r.Start[i], r.End[i], again.Start[i], again.End[i])
			}
		}
	}
}

// TestSimulatePortsByHand: os, g and L + m/B each hold what equation 2 or 3 says.
func TestSimulatePortsByHand(t *testing.T) {
	hosts := []netmap.Host{{Name: "n0"}, {Name: "n1"}, {Name: "n2"}}
	est := make([]netmap.Estimate, 9)
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldGap | netmap.FieldSendOverhead,
			Latency: 1e8, Bandwidth: 1000, Gap: 3e8, SendOverhead: 2e8} // 0.1 s, 0.3 s, 0.2 s
	}
	s := netmap.NewSnapshot(1, hosts, est)
	build := func() *Plan {
		p := alltoall(3, 500) // 0.6 s
		p.add(0, 1, []Block{{Origin: 0, Dest: 1}})
		p.add(0, 2, []Block{{Origin: 0, Dest: 2}})
		p.add(1, 0, []Block{{Origin: 1, Dest: 0}})
		return p
	}
	for _, tt := range []struct {
		duplex Duplex
		start  []float64
	}{
		{FullDuplex, []float64{0, 0.2, 0}},   // n0's port is free after os
		{HalfDuplex, []float64{0, 0.2, 0.6}}, // n1 receives until 0.6
	} {
		r, err := SimulatePorts(build(), s, tt.duplex)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tt.start {
			if !close12(r.Start[i], want) {
				t.Errorf("%v duplex: transfer %d starts at %v, want %v", tt.duplex, i, r.Start[i], want)
			}
		}
	}
	if _, err := SimulatePorts(build(), s, DuplexUnchecked); err == nil {
		t.Error("a host model that is none was accepted")
	}
	stuck := alltoall(3, 500)
	stuck.add(0, 1, []Block{{Origin: 2, Dest: 1}})
	if _, err := SimulatePorts(stuck, s, FullDuplex); !errors.Is(err, ErrStalled) {
		t.Errorf("a block that is never there: %v", err)
	}
}
