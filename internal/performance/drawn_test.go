package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/accuracy/random"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureDrawn: the makespan over the bound and [drawnAllowance] of the longest round trips, and over the bound alone, of an alltoall the relayed
// one. Its note says what was drawn.
func measureDrawn(t *testing.T, r *Reading) {
	g, err := drawn(r.Cell.Network)
	if err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	note := []string{g.String()}
	for i := range g.File.WAN {
		longest = max(longest, g.RoundTrip(i))
		note = append(note, g.Name(i)+" "+g.Describe(i))
	}
	r.Note = strings.Join(note, "; ")
	onGrid(t, r.Cell, g.File, func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		r.repeat(cl, job)
		least, over := 0., "makespan / bound"
		if job.Alltoall != nil {
			b := cl.AlltoallBounds(job)
			r.Bound, r.Relayed = b.Direct.Seconds, b.Relayed.Seconds
			least, over = r.Relayed, "makespan / relayed bound"
		} else {
			r.Bound = cl.Bound(job).Seconds()
			least = r.Bound
		}
		took := median(r.Makespans)
		r.check(fmt.Sprintf("makespan / (bound + %d round trips)", drawnAllowance), took/(least+drawnAllowance*longest.Seconds()), r.Cell.Limit)
		r.check(over, took/least, 0)
	})
}

// TestDrawn: names lead back to the grids that they are of, which are within what the row says of them.
func TestDrawn(t *testing.T) {
	for seed := range uint64(50) {
		g, err := drawn(drawnName(seed))
		if err != nil {
			t.Fatal(err)
		}
		if n, hosts := len(g.File.Sites), len(g.File.Hosts()); n < 2 || n > 5 || hosts < 2 || hosts > 24 {
			t.Errorf("seed %d: %d hosts at %d sites", seed, hosts, n)
		}
		for i, k := range g.File.WAN {
			if rtt := g.RoundTrip(i); rtt < time.Millisecond || rtt > 150*time.Millisecond || k.Loss > 0.005 {
				t.Errorf("seed %d: %s is %s, round trip %v", seed, g.Name(i), g.Describe(i), rtt)
			}
		}
	}
	if g, err := drawn(labName(301)); err != nil || len(g.File.Sites) > random.Lab.Sites || len(g.File.Hosts()) > random.Lab.All {
		t.Errorf("the first grid of a lab's: %v, %v", g, err)
	}
	for _, name := range []string{"", "lab-", "lab-1x", "drawn-", "drawn-x", "drawn-1x", "paper-3site"} {
		if _, err := drawn(name); err == nil {
			t.Errorf("network %q is one", name)
		}
	}
}

// TestSeedCells: --limits says of which grids the seeds of --random are.
func TestSeedCells(t *testing.T) {
	for from, want := range map[string]string{"lab": "lab-7", "page": "drawn-7"} {
		cells := seedCells(limits[from], 7, 7, 0, 2)
		if len(cells) != 8 { // two collectives, sizes and seeds
			t.Errorf("%s: %d cells", from, len(cells))
		}
		for _, c := range cells {
			if c.Network != want || c.Row != Engines {
				t.Errorf("%s: %v", from, c)
			}
		}
	}
	for _, wrong := range []struct{ drawn, from string }{{"7-7", "moon"}, {"7-7", ""}, {"", "page"}} {
		if err := run(t.Context(), "", wrong.drawn, wrong.from, 0, true, 1, ""); err == nil || !strings.Contains(err.Error(), "--limits") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
