package exchange

import (
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// alltoall returns the plan for blocks of size bytes.
func (w *world) alltoall(t testing.TB, size int64) *plan.Plan {
	t.Helper()
	sizes := plan.AlltoallSizes{Uniform: size}
	bounds, err := w.net.AlltoallBounds(sizes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wan.Alltoall(w.net, sizes, bounds, nil, wan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// clairvoyant returns the seconds that no schedule of an alltoall can beat if the link between two sites falls to 1/part after
// at: the T for which what the links can carry until T gives the bound T.
func (w *world) clairvoyant(t testing.TB, size int64, from, to string, at, part float64) float64 {
	t.Helper()
	net := *w.net
	net.Pipe = slices.Clone(net.Pipe)
	var a, b int
	for h := range w.snap.N() {
		switch w.snap.Host(h).Site {
		case from:
			a = net.Pool[h]
		case to:
			b = net.Pool[h]
		}
	}
	pipe := &net.Pipe[a*net.Pools()+b]
	full := *pipe
	low, high := at, 100*at
	for range 40 {
		end := (low + high) / 2
		*pipe = full * netmap.BytesPerSec((at+(end-at)/part)/end)
		bounds, err := net.AlltoallBounds(plan.AlltoallSizes{Uniform: size})
		if err != nil {
			t.Fatal(err)
		}
		if bounds.Relayed.Seconds > end {
			low = end
		} else {
			high = end
		}
	}
	return high
}

// TestReliefAlltoall: a link of an alltoall falls to a quarter. What was to be relayed over it goes straight from where it
// begins, and a part of the rest by way of a third site.
func TestReliefAlltoall(t *testing.T) {
	if testing.Short() || gridtest.Race {
		t.Skip("megabytes over several worlds: run without the race detector, which multiplies its CPU time by ten")
	}
	w := newWorld(t, threeSites)
	const size = 200 << 10
	p := w.alltoall(t, size)
	bounds, err := w.net.AlltoallBounds(plan.AlltoallSizes{Uniform: size})
	if err != nil {
		t.Fatal(err)
	}
	var alone time.Duration
	moved := make([]int64, 3) // by undisturbed ones
	for i := range moved {
		stats, took := w.run(t, p, uint64(i+1))
		sum := totals(stats)
		moved[i], alone = sum.Given+sum.Detoured, max(alone, took)
	}
	// In one of forty a way of two hosts gets less than half for longer than a second.
	slices.Sort(moved)
	if moved[1] > 0 || moved[2] > 256<<10 {
		t.Errorf("nothing happened, and something took another way: %v bytes in three exchanges", moved)
	}
	at := bounds.Relayed.Seconds / 3
	ideal := w.clairvoyant(t, size, "UK", "UT", at, 4)
	stats, took := w.run(t, p, 1, falls("UK", "UT", time.Duration(at*1e9), 4))
	sum := totals(stats)
	t.Logf("undisturbed %v, %.2f of the relayed bound; UK→UT falls: %v, %.2f of the clairvoyant's %.2f s; %d bytes went straight from where they begin, %d by way of NTH, %d came twice",
		alone, alone.Seconds()/bounds.Relayed.Seconds, took, took.Seconds()/ideal, ideal, sum.Given, sum.Detoured, sum.twice)
	if sum.Given == 0 || sum.Detoured == 0 {
		t.Error("one of the two was not done")
	}
	if took.Seconds() > 1.4*ideal {
		t.Errorf("took %v, want at most 1.4 x %.2f s", took, ideal)
	}
}
