package min3

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestOneByte: blocks of one byte on links of 1 … 10 Gbit/s take 1 … 8 ns. Counted in whole
// nanoseconds, nearly all makespans are off by up to 25 % from those of exact arithmetic,
// for which femtoseconds stand here. In picoseconds those of half duplex, where more sums compete,
// still differ now and then: offers within a picosecond change places.
func TestOneByte(t *testing.T) {
	off := map[plan.Duplex]int{}
	const seeds = 60
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 30))
		n := 3 + rng.IntN(8)
		gbit := netmap.BytesPerSec(1+9*rng.Float64()) * 1000 * netmap.Mbps
		s := snapshot(n, func(int, int) netmap.Estimate {
			return measured(0, gbit*netmap.BytesPerSec(1+0.05*rng.Float64()))
		})
		for _, duplex := range models {
			sc := scenario{s, &pools.Tree{Root: leaf(0, n)}, []int64{1}, Options{Duplex: duplex}}
			p, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			o := &oracle{finer: 1e6}
			o.run(sc)
			var last ticks
			for _, st := range o.sched {
				last = max(last, st.end)
			}
			if exact := o.seconds(last); math.Abs(p.Makespan-exact) > 0.005*exact {
				off[duplex]++
				t.Logf("seed %d: n=%d, %v duplex: makespan %.6g s, exact %.6g s", seed, n, duplex, p.Makespan, exact)
			}
		}
	}
	if off[Full] > 0 || off[Half] > seeds/5 {
		t.Errorf("%v makespans of %d differ by over 0.5 %%", off, seeds)
	}
}

// TestClock: a tick is a picosecond as long as the schedule is sure to fit.
func TestClock(t *testing.T) {
	for _, tt := range []struct {
		longest float64 // seconds
		n       int
		perNano ticks
	}{
		{0, 256, 1000},
		{4, 256, 1000}, // 2 MiB at 4 Mbit/s
		{5, 256, 1},
		{700, 20, 1000},
		{maxTime.Seconds(), 2, 1},
	} {
		if got := clockFor(tt.longest, tt.n); got.perNano != tt.perNano {
			t.Errorf("%d hosts, %v s at most: %d ticks a nanosecond, want %d", tt.n, tt.longest, got.perNano, tt.perNano)
		}
	}
	for _, perNano := range []ticks{1, 1000} {
		c := clock{perNano}
		if got := c.seconds(c.moving(1e6, 1500) + c.of(time.Millisecond)); got != 0.0025 {
			t.Errorf("%d ticks a nanosecond: 1 ms and 1500 bytes at 1 MB/s are %v s", perNano, got)
		}
	}
}
