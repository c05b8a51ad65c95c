package openshop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/probe/netmap"
)

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("h%03d", i)
	}
	return out
}

// drawn returns sizes of which each is one of choice.
func drawn(rng *rand.Rand, n int, choice ...int64) plan.AlltoallSizes {
	s := plan.AlltoallSizes{Matrix: make([][]int64, n)}
	for i := range s.Matrix {
		s.Matrix[i] = make([]int64, n)
		for j := range s.Matrix[i] {
			if i != j {
				s.Matrix[i][j] = choice[rng.IntN(len(choice))]
			}
		}
	}
	return s
}

func byBytes(_, _ int, bytes int64) float64 { return float64(bytes) }

// busiest returns the seconds of the busiest port: no schedule is shorter.
func busiest(n int, sizes plan.AlltoallSizes) float64 {
	busy := make([]float64, 2*n)
	for i := range n {
		for j := range n {
			busy[i] += float64(sizes.Of(i, j))
			busy[n+j] += float64(sizes.Of(i, j))
		}
	}
	return slices.Max(busy)
}

// TestSchedules: plans of sizes drawn at random are proved, on one switch they are simulated with the schedule's own time but for what small messages gain, which is never more than twice that of the busiest
// port, and in the mean 2 % more.
func TestSchedules(t *testing.T) {
	sum, runs := 0., 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 51))
		n := 2 + rng.IntN(23)
		choice := [][]int64{{0, 4 << 10, 64 << 10}, {0, 100, 128 << 10}, {1000, 2000, 64000}, {0, 0, 0, 200_000}, {0, 1 << 20}, {1, 1000, 1 << 16, 1 << 20}}[rng.IntN(6)]
		sizes := drawn(rng, n, choice...)
		p, err := Alltoall(names(n), sizes, byBytes)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := plan.Verify(p, plan.Rules{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		least := busiest(n, sizes)
		if least == 0 {
			continue
		}
		topo, err := plan.NewTopology([]string{"s"}, nil, names(n), make([]int, n), netmap.BytesPerSec(1))
		if err != nil {
			t.Fatal(err)
		}
		net, err := plan.NetworkOfTopology(topo, 0)
		if err != nil {
			t.Fatal(err)
		}
		sim, err := plan.Simulate(p, net, plan.SimOptions{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := sim.Makespan / least
		if got > 2 || got < 1-1e-9 {
			t.Errorf("seed %d: %d hosts with blocks of %v take %.3f times what the busiest port does", seed, n, choice, got)
		}
		sum, runs = sum+got, runs+1
	}
	if mean := sum / float64(runs); mean > 1.02 {
		t.Errorf("%d matrices take %.3f times what the busiest port does, in the mean", runs, mean)
	}
}

// TestNoNeedlessWait: while a message waits, its source sends or its destination receives another; so the last one ends before twice the least time.
func TestNoNeedlessWait(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 52))
		n := 2 + rng.IntN(12)
		var all []message
		sizes := drawn(rng, n, 0, 1, 2, 3, 50)
		for i := range n {
			for j := range n {
				if b := sizes.Of(i, j); b > 0 {
					all = append(all, message{i, j, b, float64(b)})
				}
			}
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		order, end := run(n, all)
		if len(order) != len(all) {
			t.Fatalf("seed %d: %d of %d messages begin", seed, len(order), len(all))
		}
		// Played again, each begins when both of its hosts are free.
		sends, receives, latest := make([]float64, n), make([]float64, n), 0.
		for k, m := range order {
			at := max(sends[m.src], receives[m.dst])
			if at < latest {
				t.Fatalf("seed %d: message %d of %d could begin at %v, and stands behind one that begins at %v", seed, k, len(order), at, latest)
			}
			latest = at
			sends[m.src], receives[m.dst] = at+m.seconds, at+m.seconds
		}
		if last := max(slices.Max(sends), slices.Max(receives)); last != end {
			t.Errorf("seed %d: it ends at %v, played again at %v", seed, end, last)
		}
		if least := busiest(n, sizes); end > 2*least {
			t.Errorf("seed %d: it ends at %v, and the busiest port takes %v", seed, end, least)
		}
	}
}

// TestEqualBlocks: of blocks of one size and hosts that are alike the schedule is the shift exchange.
func TestEqualBlocks(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 24} {
		p, err := Alltoall(names(n), plan.AlltoallSizes{Uniform: 1 << 16}, byBytes)
		if err != nil {
			t.Fatal(err)
		}
		shift, err := shuffle.Shift(names(n), plan.AlltoallSizes{Uniform: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Transfers) != len(shift.Transfers) {
			t.Fatalf("%d hosts: %d transfers, want %d", n, len(p.Transfers), len(shift.Transfers))
		}
		for i := range p.Transfers {
			if a, b := p.Transfers[i], shift.Transfers[i]; a.Src != b.Src || a.Dst != b.Dst {
				t.Fatalf("%d hosts: transfer %d goes from %d to %d, in a shift exchange from %d to %d", n, i, a.Src, a.Dst, b.Src, b.Dst)
			}
		}
	}
}

// TestWaits: who waits at a destination for whom.
func TestWaits(t *testing.T) {
	var q queue
	for i, tc := range []struct {
		bytes int64
		want  int
	}{
		{1 << 10, -1}, {1 << 10, -1}, {1 << 10, -1}, {64 << 10, 0}, {64 << 10, 3}, {2 << 10, 4}, {64 << 10, 4}, {3 << 10, 6}, {100, 7},
	} {
		if got := q.add(i, tc.bytes); got != tc.want {
			t.Errorf("message %d waits for %d, want %d", i, got, tc.want)
		}
	}
	// Blocks of which all hosts' together are 16 KiB wait for no one at their destination, and larger ones do.
	for _, tc := range []struct {
		bytes int64
		want  bool
	}{{1 << 10, false}, {3 << 10, true}} {
		p, err := Alltoall(names(8), plan.AlltoallSizes{Uniform: tc.bytes}, byBytes)
		if err != nil {
			t.Fatal(err)
		}
		waits := slices.ContainsFunc(p.Transfers, func(tr plan.Transfer) bool {
			return slices.ContainsFunc(tr.After, func(a int) bool { return p.Transfers[a].Src != tr.Src })
		})
		if waits != tc.want {
			t.Errorf("blocks of %d bytes: some wait at their destination: %v", tc.bytes, waits)
		}
	}
}

func TestRefuses(t *testing.T) {
	if _, err := Alltoall(names(3), plan.AlltoallSizes{Matrix: [][]int64{{0}}}, byBytes); err == nil {
		t.Error("a matrix of one row for three hosts is taken")
	}
}

func BenchmarkAlltoall(b *testing.B) {
	for _, n := range []int{24, 64, 128} {
		sizes := drawn(rand.New(rand.NewPCG(1, 1)), n, 0, 4<<10, 64<<10)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Alltoall(names(n), sizes, byBytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
