package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestSmallOver: contributions gather at leaders, cross, and spread; what is passed on is there whole.
func TestSmallOver(t *testing.T) {
	const mbit = 1e6 / 8
	hosts := []netmap.Host{{Name: "a1", Site: "A"}, {Name: "a2", Site: "A"}, {Name: "b1", Site: "B"}, {Name: "b2", Site: "B"}}
	var est []netmap.Estimate
	for i := range hosts {
		for j := range hosts {
			e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: time.Millisecond, Bandwidth: 80 * mbit}
			if (i < 2) != (j < 2) {
				e.Latency, e.Bandwidth = 20*time.Millisecond, 8*mbit
			}
			if i == 2 && j == 0 {
				e.Latency = 30 * time.Millisecond // that way only
			}
			est = append(est, e)
		}
	}
	snap := netmap.NewSnapshot(1, hosts, est)
	for _, tt := range []struct {
		sizes []int64
		want  time.Duration
	}{
		{[]int64{0, 0, 0, 0}, 32 * time.Millisecond},               // b2, b1, a1, a2
		{[]int64{0, 0, 10000, 10000}, 55 * time.Millisecond},       // 2, 50 and 3
		{[]int64{100000, 100000, 0, 0}, 252 * time.Millisecond},    // 11, 220 and 21
		{[]int64{0, 200000, 100000, 0}, (21 + 220 + 21) * 1000000}, // the former, though b1's take 141
	} {
		if got := smallOver(snap, leaders(snap), tt.sizes); (got - tt.want).Abs() > 10*time.Microsecond {
			t.Errorf("%d bytes take %v, want %v", tt.sizes, got, tt.want)
		}
	}
}

// TestGiven: what leaders pass on of an alltoall is whole rows.
func TestGiven(t *testing.T) {
	if got, want := given([][]int64{{0, 64, 64}, {10, 0, 30}, {0, 0, 0}}), []int64{192, 60, 0}; !slices.Equal(got, want) {
		t.Errorf("they give %d bytes, want %d", got, want)
	}
}

// TestStraightOver: blocks of a site to another one share what that lets through together, and go twice where they may be lost.
func TestStraightOver(t *testing.T) {
	const kb = 1000 // bytes, a millisecond of a flow between sites
	known := siteHosts(2, kb*1000, "A", "B")
	block := func(from, to int, bytes int64) [][]int64 {
		m := make([][]int64, 4)
		for i := range m {
			m[i] = make([]int64, 4)
		}
		m[from][to] = bytes
		return m
	}
	all := block(0, 0, 0)
	for i := range all {
		for j := range all {
			all[i][j] = 10 * kb
		}
	}
	heads := 4 * farHead * time.Microsecond
	for name, tt := range map[string]struct {
		matrix   [][]int64
		capacity netmap.BytesPerSec
		loss     float64
		want     time.Duration // beside the latency between sites
	}{
		"nothing":   {block(0, 0, 0), 0, 0, heads},
		"one block": {block(0, 2, 10*kb), 0, 0, 10*time.Millisecond + heads},
		"all":       {all, 0, 0, 40*time.Millisecond + heads},
		"all, of a link that lets two flows through": {all, 2 * kb * 1000, 0, 20*time.Millisecond + heads/2},
		"twice": {all, 0, 0.02, 80*time.Millisecond + 2*heads},
	} {
		var est []netmap.Estimate
		var latency time.Duration
		for i := range 4 {
			for j := range 4 {
				e := known.Estimate(i, j)
				if i < 2 && j >= 2 {
					latency = e.Latency
					if tt.capacity > 0 {
						e.Capacity, e.Known = tt.capacity, e.Known|netmap.FieldCapacity
					}
					if tt.loss > 0 {
						e.Loss, e.LossOf, e.Known = tt.loss, 9999, e.Known|netmap.FieldLoss
					}
				} else if (i < 2) != (j < 2) {
					e.Bandwidth *= 100
				}
				est = append(est, e)
			}
		}
		snap := netmap.NewSnapshot(1, known.Hosts(), est)
		if got := straightOver(snap, leaders(snap), tt.matrix); (got - latency - tt.want).Abs() > 10*time.Microsecond {
			t.Errorf("%s: %v beside the latency, want %v", name, got-latency, tt.want)
		}
	}
}

// TestSafe: over which links plans of small operations are offered.
func TestSafe(t *testing.T) {
	for _, tt := range []struct {
		loss  float64
		sizes []int64
		want  bool
	}{
		{0, []int64{1 << 20, 1 << 20, 1 << 20, 1 << 20}, true},
		{0.02, []int64{100, 100, 100, 100}, true}, // two packets over each
		{0.02, []int64{100, 6000, 0, 0}, false},   // seven
		{0.06, []int64{100, 100, 0, 0}, false},
	} {
		known := siteHosts(2, 1e6, "A", "B")
		var est []netmap.Estimate
		for i := range 4 {
			for j := range 4 {
				e := known.Estimate(i, j)
				if i < 2 && j >= 2 {
					e.Loss, e.LossOf, e.Known = tt.loss, 9999, e.Known|netmap.FieldLoss
				}
				est = append(est, e)
			}
		}
		snap := netmap.NewSnapshot(3, known.Hosts(), est)
		if got := safe(snap, group.Request{Sizes: tt.sizes}); got != tt.want {
			t.Errorf("%d bytes over a link that loses %g: %v", tt.sizes, tt.loss, got)
		}
		matrix := make([][]int64, 4) // as many bytes over the same link, to one host; the other one gets as much of its neighbour
		for i := range matrix {
			matrix[i] = make([]int64, 4)
			matrix[i][2] = tt.sizes[i]
		}
		if got := safe(snap, group.Request{Matrix: matrix}); got != tt.want {
			t.Errorf("blocks of %d bytes over a link that loses %g: %v", tt.sizes, tt.loss, got)
		}
	}
}
