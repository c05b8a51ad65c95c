package labtest

import (
	"testing"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// TestCollectives runs both collectives from files, with two ranks on one host, and counts what
// crosses into each site.
func TestCollectives(t *testing.T) {
	c := newCluster(t, "collectives", "testdata/three.yaml")
	succeed(t, c.client(t, "b0", "map", "--wait", "1m"))
	at := append([]string{"a0"}, c.of()...)
	n := len(at)
	ranksIn := make(map[string]int)
	for _, name := range at {
		ranksIn[c.node(name).Site]++
	}

	t.Run("allgather", func(t *testing.T) {
		const seed, size = 11, 256 << 10
		sizes := make([]int, n)
		for i := range sizes {
			sizes[i] = size + i // no two alike: a swap shows in the lengths, too
		}
		in, out := e2etest.Random(t, seed, sizes...), e2etest.Files(t, n)
		before := c.stats(t)
		rep := finish(t, "allgather", c.ranks(t, "allgather", "gather", at, in, out, "-o", "json"), out, repeat(in, n))
		c.checkReport(t, rep, n)
		for site, inside := range ranksIn {
			c.crossed(t, before, site, (n-inside)*size)
		}
	})
	t.Run("alltoall", func(t *testing.T) {
		const seed, size = 12, 48 << 10
		in, want := e2etest.Cut(t, seed, n, func(int, int) int { return size })
		out := e2etest.Files(t, n)
		before := c.stats(t)
		rep := finish(t, "alltoall", c.ranks(t, "alltoall", "all", at, in, out, "-o", "json"), out, want)
		c.checkReport(t, rep, n)
		for site, inside := range ranksIn {
			c.crossed(t, before, site, (n-inside)*inside*size)
		}
	})
}

func (c *cluster) checkReport(t *testing.T, r *report, ranks int) {
	t.Helper()
	if r.Ranks != ranks || r.Hosts != len(c.nodes) {
		t.Errorf("report of %d ranks on %d hosts, want %d on %d", r.Ranks, r.Hosts, ranks, len(c.nodes))
	}
	// The bound is that of the map, which may be off.
	if r.BoundRatio < 1-pairTolerance {
		t.Errorf("it took %.2f s, less than the bound, %.2f s", r.Seconds, r.BoundSeconds)
	}
}

// Around the payload are headers (4.8 % of it), acknowledgements of what went the other way, what was
// lost in full queues, heartbeats and probes. Were a block to cross twice, it would be 100 %.
const around = 0.35

// crossed checks that payload bytes have come into a site since before, about once.
func (c *cluster) crossed(t *testing.T, before *stats, site string, payload int) {
	t.Helper()
	got := (c.stats(t).into(site) - before.into(site)) / float64(payload)
	t.Logf("%.3f × the blocks for site %s, %d bytes, have crossed into it", got, site, payload)
	if got < 1 || got > 1+around {
		t.Errorf("site %s: %.3f × its blocks have crossed into it, want 1 to %v", site, got, 1+around)
	}
}
