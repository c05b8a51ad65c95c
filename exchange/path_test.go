package exchange

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestLanesOfPath: how many lanes fill a path, for what was measured of such paths
// (docs/design/lanes.md).
func TestLanesOfPath(t *testing.T) {
	const mbps, trip = netmap.Mbps, 100 * time.Millisecond
	inf := netmap.BytesPerSec(math.Inf(1))
	for _, c := range []struct {
		name string
		p    Path
		want int
	}{
		{"nothing is known", Path{}, 1},
		{"a LAN", Path{Rate: 1000 * mbps}, 1},
		{"one flow fills it", Path{RTT: trip, Rate: 19 * mbps, Capacity: 20 * mbps}, 1},
		{"several flows get less than one", Path{RTT: trip, Rate: 20 * mbps, Capacity: 10 * mbps}, 1},
		{"losses hold a flow to a twelfth", Path{RTT: trip, Rate: 1.63 * mbps, Capacity: 19.1 * mbps, Loss: 0.01}, 16},
		{"losses hold a flow to a thirtieth", Path{RTT: trip, Rate: 6.2 * mbps, Capacity: 191 * mbps, Loss: 0.001}, 42},
		{"the network holds a flow to an eighth", Path{RTT: trip, Rate: 1.2 * mbps, Capacity: 9.6 * mbps}, 8},
		{"the same, of eight pairs", Path{RTT: trip, Rate: 1.2 * mbps, Capacity: 9.6 * mbps, Flows: 8}, 1},
		{"a measured knee", Path{RTT: trip, Rate: 1.63 * mbps, Capacity: 19.1 * mbps, Knee: 13}, 13},
		{"a knee of flows that chance has spared", Path{RTT: trip, Rate: 1.63 * mbps, Capacity: 19.1 * mbps, Loss: 0.01, Knee: 13}, 16},
		{"a knee of chance", Path{RTT: trip, Rate: 1 * mbps, Capacity: 3.9 * mbps, Knee: 6}, 6},
		{"a knee of chance of five pairs, which fill the path with a lane each", Path{RTT: trip, Rate: 1 * mbps, Capacity: 3.9 * mbps, Knee: 6, Flows: 5}, 1},
		{"a small knee of three pairs", Path{RTT: trip, Rate: 1 * mbps, Capacity: 12 * mbps, Knee: 6, Flows: 3}, 2},
		{"a knee of chance of three pairs", Path{RTT: trip, Rate: 1 * mbps, Capacity: 3.9 * mbps, Knee: 6, Flows: 3}, 2},
		{"eight pairs fill the path, of ten flows that a search has tried", Path{RTT: trip, Rate: 1.2 * mbps, Capacity: 9.6 * mbps, Knee: 10, Flows: 8}, 1},
		{"a knee of eight pairs at twice the flows", Path{RTT: trip, Rate: 1.2 * mbps, Capacity: 9.6 * mbps, Knee: 16, Flows: 8}, 2},
		{"a measured knee of five pairs", Path{RTT: trip, Rate: 1.63 * mbps, Capacity: 19.1 * mbps, Knee: 13, Flows: 5}, 3},
		{"eight pairs that ports hold, over a link of six times as much", Path{RTT: trip, Rate: 36 * mbps, Capacity: 130 * mbps, Link: 780 * mbps, Loss: 0.001, Flows: 8}, 4},
		{"two of them", Path{RTT: trip, Rate: 36 * mbps, Capacity: 130 * mbps, Link: 780 * mbps, Loss: 0.001, Flows: 2}, 5},
		{"a link that is none", Path{RTT: trip, Rate: mbps, Capacity: 2 * mbps, Link: netmap.BytesPerSec(math.NaN())}, 1},
		{"a Gbit/s, though one flow gets it", Path{RTT: trip, Rate: 950 * mbps}, 4},
		{"losses hold a flow to nothing", Path{RTT: trip, Rate: 1, Capacity: 1000 * mbps, Loss: 0.5}, 63},
		{"a rate that is none", Path{RTT: trip, Rate: inf}, 1},
		{"a capacity that is none", Path{RTT: trip, Rate: mbps, Capacity: netmap.BytesPerSec(math.NaN())}, 1},
		{"negative flows", Path{RTT: trip, Rate: mbps, Capacity: 2 * mbps, Flows: -3}, 2},
	} {
		if got := c.p.Lanes(); got != c.want {
			t.Errorf("%s: %d lanes, want %d", c.name, got, c.want)
		}
	}
}

// TestPathBounds: whatever a map says, there are 1 to 63 lanes, pairs that share a path want no more than
// one alone, and windows hold a few slices.
func TestPathBounds(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 80))
		rate := func() netmap.BytesPerSec {
			return netmap.BytesPerSec([]float64{0, -1, 1e-3, 1e3, 1e6, 1e12, 1e300, math.Inf(1), math.NaN()}[rng.IntN(9)])
		}
		p := Path{
			RTT: time.Duration(rng.Int64N(int64(1)<<(1+rng.IntN(62)))) - 1, Rate: rate(), Capacity: rate(),
			Knee: rng.IntN(200) - 20, Loss: rng.Float64(), Flows: rng.IntN(1000) - 10,
		}
		n := p.Lanes()
		alone := p
		alone.Flows = 1
		if n < 1 || n > maxLane || n > alone.Lanes() {
			t.Errorf("seed %d: %d lanes, %d for one pair alone: %+v", seed, n, alone.Lanes(), p)
		}
		chunk := 1 + rng.IntN(1<<20)
		if w := newWindow(p, n, chunk); w != nil && (w.slice < 1 || w.slice > int64(chunk) || w.limit < leastSlices*w.slice || w.limit > 2*maxWindow || w.base <= 0) {
			t.Errorf("seed %d: window of %d bytes in slices of %d for chunks of %d over %+v", seed, w.limit, w.slice, chunk, p)
		}
	}
}

// TestPathPart: what a pair of hosts gets where several share a link, which may carry more than one pair can.
func TestPathPart(t *testing.T) {
	for _, tt := range []struct {
		capacity, link netmap.BytesPerSec
		flows          int
		want           float64
	}{
		{100, 0, 0, 100},
		{100, 0, 4, 25},
		{100, 300, 1, 100}, // its port's
		{100, 300, 4, 75},
		{100, 20, 4, 25}, // less was seen than one pair gets
	} {
		if got := (Path{RTT: 1, Rate: tt.capacity, Capacity: tt.capacity, Link: tt.link, Flows: tt.flows}).part(); got != tt.want {
			t.Errorf("%v of %v among %d: %v, want %v", tt.capacity, tt.link, tt.flows, got, tt.want)
		}
	}
}
