package exchange

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
)

// TestChunkOf: chunks are large where forwarding does not wait for them, and small in a pipeline.
func TestChunkOf(t *testing.T) {
	const kib = 1 << 10
	hosts := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	sizes := slices.Repeat([]int64{64 * kib}, len(hosts))
	ring, err := baseline.Ring(hosts, sizes)
	if err != nil {
		t.Fatal(err)
	}
	shift, err := shuffle.Shift(hosts, plan.AlltoallSizes{Uniform: 256 * kib})
	if err != nil {
		t.Fatal(err)
	}
	ahead := *shift
	ahead.Sync = &plan.Claim{Kind: plan.SyncReceiver, Lead: 16 * kib}
	line := &plan.Plan{Collective: plan.Allgather, Hosts: hosts, Sizes: make([]int64, len(hosts))} // one block from host to host
	line.Sizes[0] = 64 * kib
	for i := range len(hosts) - 1 {
		x := plan.Transfer{ID: i, Src: i, Dst: i + 1, Phase: -1, Blocks: []plan.Block{{Origin: 0, Dest: plan.All}}}
		if i > 0 {
			x.After = []int{i - 1}
		}
		line.Transfers = append(line.Transfers, x)
	}
	long := *line
	long.Sizes = slices.Clone(line.Sizes)
	long.Sizes[0] = 1 << 20 // a sixteenth of it at each of seven hosts would be nearly half of the time
	for _, tc := range []struct {
		name string
		p    *plan.Plan
		want int
	}{
		{"a ring", ring, 16 * kib},
		{"an alltoall", shift, 64 * kib},
		{"an alltoall with a lead, which counts bytes", &ahead, 64 * kib},
		{"a line", line, 4 * kib},
		{"a long line", &long, 8 * kib},
		{"no bytes", &plan.Plan{Collective: plan.Allgather, Hosts: hosts}, 4 * kib},
	} {
		if got := ChunkOf(tc.p); got != tc.want {
			t.Errorf("%s: chunks of %d bytes, want %d", tc.name, got, tc.want)
		}
	}
}

// TestChunkOver: a chunk is short where a block goes on from a slow link, and long where that one is as fast as those of a ring beside it, which end later.
func TestChunkOver(t *testing.T) {
	const size = 64 << 10
	p := &plan.Plan{Collective: plan.Allgather, Hosts: []string{"a", "b", "c", "d", "e", "f", "g"}, Sizes: slices.Repeat([]int64{size}, 7)}
	add := func(src, dst, origin int, after ...int) {
		p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: src, Dst: dst, Phase: -1, Blocks: []plan.Block{{Origin: origin, Dest: plan.All}}, After: after})
	}
	add(0, 1, 0)
	add(1, 2, 0, 0)
	const ring = 4 // of hosts 3 to 6
	for step := range ring - 1 {
		for h := range ring {
			var after []int
			if step > 0 {
				after = []int{len(p.Transfers) - ring + (h+ring-1)%ring - h}
			}
			add(3+h, 3+(h+1)%ring, 3+(h+ring-step)%ring, after...)
		}
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		slow float64 // of the first link, beside the others
		want int
	}{{1, 16 << 10}, {10, 8 << 10}} {
		got := ChunkOver(p, func(src, _ int) float64 {
			if src == 0 {
				return tt.slow
			}
			return 1
		})
		if got != tt.want {
			t.Errorf("%v times as slow: chunks of %d bytes, want %d", tt.slow, got, tt.want)
		}
	}
}

// TestChunkOfAnyPlan: a power of two between the bounds, whatever the plan.
func TestChunkOfAnyPlan(t *testing.T) {
	for seed := range uint64(200) {
		p := randomPlan(rand.New(rand.NewPCG(seed, 27)), 4096)
		c, largest := ChunkOf(p), int64(0)
		for i := range p.Transfers {
			for _, b := range p.Transfers[i].Blocks {
				largest = max(largest, p.Size(b))
			}
		}
		base := DefaultChunk(largest)
		if c&(c-1) != 0 || c < minDefaultChunk || c > maxDefaultChunk || c > 4*base {
			t.Errorf("seed %d: chunks of %d bytes for blocks of up to %d", seed, c, largest)
		}
		if f := newForwarding(p, alike); c < base && f.time(c) > (1-halving)*f.time(base) {
			t.Errorf("seed %d: chunks of %d bytes for blocks of up to %d save nothing: %v, and %v in %d", seed, c, largest, f.time(c), f.time(base), base)
		}
	}
}
