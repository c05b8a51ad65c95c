package exchange

import (
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/baseline"
)

// TestSimulationChunk: few chunks stay as they are, many become larger, and never fewer than 16 a block.
func TestSimulationChunk(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	ring := func(n int, size int64) int64 {
		p, err := baseline.Ring(slices.Repeat([]string{"h"}, n), slices.Repeat([]int64{size}, n))
		if err != nil {
			t.Fatal(err)
		}
		return SimulationChunk(p, 16*kib)
	}
	for _, tc := range []struct {
		hosts      int
		size, want int64
	}{
		{20, 40 * mib, 16 * kib},    // 380 blocks of 2560
		{20, 50 * mib, 32 * kib},    // of 3200
		{20, 700 * mib, 512 * kib},  // of 44,800
		{400, 256 * kib, 16 * kib},  // 159,600 blocks of 16
		{400, 1024 * kib, 64 * kib}, // of 64
		{4, 0, 16 * kib},
	} {
		if got := ring(tc.hosts, tc.size); got != tc.want {
			t.Errorf("%d hosts, blocks of %d bytes: chunks of %d, want %d", tc.hosts, tc.size, got, tc.want)
		}
	}
}
