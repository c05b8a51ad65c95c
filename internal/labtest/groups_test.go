package labtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// A drawnGroup is one of many: an operation of ranks at some hosts, with sizes of all kinds.
type drawnGroup struct {
	job        string
	collective string
	at         []string // host of each rank
	sizes      []int    // of an allgather
	matrix     [][]int  // of an alltoall: from rank to rank
}

// TestManyGroups runs many groups at once over the same hosts and links, all of which call at the same time: ranks that give nothing, a byte, or all
// there is, several on a host. Each must get every byte, and no agent may end.
func TestManyGroups(t *testing.T) {
	mustBePossible(t)
	mustBeAll(t)
	const seed, groups = 31, 16
	c := newCluster(t, "groups", "testdata/three.yaml")
	c.waitMap(t, "a0")
	rng := rand.New(rand.NewPCG(seed, 0))
	before := c.stats(t)
	for round := range 2 {
		var all []func()
		for g := range groups {
			d := drawGroup(rng, fmt.Sprintf("many-%d-%d", round, g), c.of())
			all = append(all, c.launch(t, d, seed+uint64(g)))
		}
		for _, wait := range all {
			wait()
		}
	}
	after := c.stats(t)
	for _, site := range []string{"A", "B", "C"} {
		t.Logf("%.0f KiB have come into site %s", (after.into(site)-before.into(site))/1024, site)
	}
	for _, n := range c.nodes {
		if n.Ended() {
			t.Errorf("the agent of %s has ended", n.Name)
		}
	}
}

// drawGroup draws who takes part and what each gives.
func drawGroup(rng *rand.Rand, job string, hosts []string) *drawnGroup {
	d := &drawnGroup{job: job, collective: []string{"allgather", "alltoall"}[rng.IntN(2)]}
	ranks := []int{1, 2, 3, 5, 7, 9}[rng.IntN(6)]
	for range ranks {
		d.at = append(d.at, hosts[rng.IntN(len(hosts))])
	}
	only := rng.IntN(ranks) // the one that gives all, in every fourth group
	kind := rng.IntN(4)
	size := func(rank, most int) int {
		switch {
		case kind == 0 && rank != only:
			return 0
		case kind == 0:
			return most
		case kind == 1:
			return rng.IntN(2)
		}
		return []int{0, 1, 1 + rng.IntN(most), most}[rng.IntN(4)]
	}
	for s := range ranks {
		d.sizes = append(d.sizes, size(s, 48<<10))
		row := make([]int, ranks)
		for i := range row {
			row[i] = size(s, 16<<10)
		}
		d.matrix = append(d.matrix, row)
	}
	return d
}

// launch starts the ranks of a group; the function that it returns waits for them and looks at what they got.
func (c *cluster) launch(t *testing.T, d *drawnGroup, seed uint64) func() {
	t.Helper()
	n := len(d.at)
	out := e2etest.Files(t, n)
	what := fmt.Sprintf("seed %d: %s %s at %v of %v", seed, d.job, d.collective, d.at, d.sizes)
	if d.collective == "allgather" {
		in := e2etest.Random(t, seed, d.sizes...)
		ps := c.ranks(t, d.collective, d.job, d.at, in, out, "-o", "json")
		return func() { finish(t, what, ps, out, repeat(in, n)) }
	}
	in, want := e2etest.Cut(t, seed, n, func(s, to int) int { return d.matrix[s][to] })
	var table strings.Builder
	for _, row := range d.matrix {
		for _, size := range row {
			fmt.Fprintf(&table, "%dB ", size)
		}
		fmt.Fprintln(&table)
	}
	file := filepath.Join(t.TempDir(), "sizes")
	if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	what = fmt.Sprintf("seed %d: %s %s at %v of %v", seed, d.job, d.collective, d.at, d.matrix)
	ps := c.ranks(t, d.collective, d.job, d.at, in, out, "--size-file", file, "-o", "json")
	return func() { finish(t, what, ps, out, want) }
}

// TestOneGivesAll: an allgather in which one rank has 64 MiB and all others nothing, then one in which it has a byte.
func TestOneGivesAll(t *testing.T) {
	mustBePossible(t)
	mustBeAll(t)
	const seed = 32
	c := newCluster(t, "extremes", "testdata/three.yaml")
	c.waitMap(t, "a0")
	at := c.of("A")
	for i, size := range []int{64 << 20, 1} {
		sizes := make([]int, len(at))
		sizes[1] = size
		in, out := e2etest.Random(t, seed, sizes...), e2etest.Files(t, len(at))
		finish(t, fmt.Sprintf("%d bytes of one rank", size), c.ranks(t, "allgather", fmt.Sprintf("all-%d", i), at, in, out, "-o", "json"), out, repeat(in, len(at)))
	}
}
