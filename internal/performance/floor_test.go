package main

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestFloor: two sites and a third that is farther away, by hand.
func TestFloor(t *testing.T) {
	const mb = 1_000_000 // bytes a second
	link := func(from, to int, rate float64, latency time.Duration, loss float64) gridfile.Link {
		return gridfile.Link{From: from, To: to, Capacity: netmap.BytesPerSec(rate), Latency: latency, Loss: loss}
	}
	two := &gridfile.Grid{Sites: []gridfile.Site{{Hosts: 1}, {Hosts: 2}}, WAN: []gridfile.Link{
		link(0, 1, mb, 100*time.Millisecond, 0), link(1, 0, mb, 100*time.Millisecond, 0.5)}}
	three := &gridfile.Grid{Sites: []gridfile.Site{{Hosts: 1}, {Hosts: 1}, {Hosts: 1}}, WAN: []gridfile.Link{
		link(0, 2, mb, 100*time.Millisecond, 0), link(1, 2, mb, 300*time.Millisecond, 0),
		link(2, 0, 100*mb, 0, 0), link(0, 1, 100*mb, 0, 0), link(1, 0, 100*mb, 0, 0), link(2, 1, 100*mb, 0, 0)}}
	for _, c := range []struct {
		name string
		g    *gridfile.Grid
		op   plan.Collective
		size int64
		want float64
	}{
		{"two blocks over the link that loses half", two, plan.Allgather, 100_000, 0.1 + 0.4*packetShare},
		{"an alltoall has as many each way", two, plan.Alltoall, 100_000, 0.1 + 0.4*packetShare},
		{"nothing", two, plan.Allgather, 0, 0},
		{"the near link is done before the far one delivers", three, plan.Allgather, 50_000, 0.1 + 0.1*packetShare},
		{"both share, the far one begins later", three, plan.Allgather, 500_000, (packetShare + 0.4) / 2},
	} {
		got, err := floor(c.g, c.op, c.size)
		if err != nil || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, err := floor(&gridfile.Grid{Sites: two.Sites, WAN: two.WAN[:1]}, plan.Allgather, 1); !errors.Is(err, plan.ErrUnreachable) {
		t.Errorf("without a way back: %v", err)
	}
}

// TestFloorIsAFloor: without latency, losses and headers it is the bound between sites; with them it is more, and never more than what was achieved.
func TestFloorIsAFloor(t *testing.T) {
	t.Chdir("../..")
	for seed := uint64(1); seed <= 16; seed++ {
		g, err := gridOf(drawnEngines(seed, seed)[0].Network)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []plan.Collective{plan.Allgather, plan.Alltoall} {
			with, err := floor(g, op, 64*kib)
			if err != nil {
				t.Fatal(err)
			}
			bare := &gridfile.Grid{Sites: g.Sites}
			for _, l := range g.WAN {
				l.Latency, l.Loss = 0, 0
				bare.WAN = append(bare.WAN, l)
			}
			without, err := floor(bare, op, 64*kib)
			if err != nil {
				t.Fatal(err)
			}
			network, err := gridtest.Network(g)
			if err != nil {
				t.Fatal(err)
			}
			bound := 0.
			if op == plan.Allgather {
				sizes := make([]int64, len(network.Hosts))
				for i := range sizes {
					sizes[i] = 64 * kib
				}
				b, err := network.AllgatherBound(sizes)
				if err != nil {
					t.Fatal(err)
				}
				bound = b.Seconds
			} else {
				b, err := network.AlltoallBounds(plan.AlltoallSizes{Uniform: 64 * kib})
				if err != nil {
					t.Fatal(err)
				}
				bound = b.Relayed.Seconds
			}
			if without > bound*packetShare*(1+1e-9) || with < without {
				t.Errorf("drawn-%d, %s: floor %v, %v without latency and losses, bound %v", seed, op, with, without, bound)
			}
		}
	}
	raw, err := readRaw("docs/performance.md")
	if err != nil || raw == nil {
		t.Fatalf("the page's numbers: %v", err)
	}
	seen := 0
	for _, r := range raw.Readings {
		least, ok := floorOf(r.Cell)
		if !ok || len(r.Makespans) == 0 {
			continue
		}
		seen++
		for _, m := range r.Makespans {
			if m < least {
				t.Errorf("%v took %v, under its floor of %v", r.Cell, m, least)
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d cells have a floor, want 40 at least", seen)
	}
}
