package labtest

import (
	"testing"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// TestCollectives runs both collectives from files, with two ranks on one host, and counts what
// crosses into each site; then gridagent bench times both.
func TestCollectives(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "collectives", "testdata/three.yaml")
	g := load(t, c.file)
	c.waitMap(t, "b0")
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
		into := make(map[string]int64)
		for site := range ranksIn {
			for r, name := range at {
				if c.node(name).Site != site {
					into[site] += int64(sizes[r])
				}
			}
		}
		before := c.stats(t)
		reports := finish(t, "allgather", c.ranks(t, "allgather", "gather", at, in, out, "-o", "json"), out, repeat(in, n))
		c.checkReports(t, g, at, reports, into)
		c.checkCrossings(t, before, at, reports, into, size, false)
	})
	t.Run("alltoall", func(t *testing.T) {
		const seed, size = 12, 48 << 10
		in, want := e2etest.Cut(t, seed, n, func(int, int) int { return size })
		out := e2etest.Files(t, n)
		into := make(map[string]int64)
		for site, inside := range ranksIn {
			into[site] = int64((n - inside) * inside * size)
		}
		before := c.stats(t)
		reports := finish(t, "alltoall", c.ranks(t, "alltoall", "all", at, in, out, "-o", "json"), out, want)
		c.checkReports(t, g, at, reports, into)
		c.checkCrossings(t, before, at, reports, into, size, true)
	})
	t.Run("bench", c.timeBoth)
}

// trueBound returns how many seconds it takes at least until into[X] bytes are in each site X of a grid:
// no schedule is faster than the links into X carry them. They carry IP packets, so this holds of
// payload all the more, and without any tolerance. The bound that a report brings is that of the agents'
// map, which may be off.
func trueBound(g *gridfile.Grid, into map[string]int64) (seconds float64) {
	for site, bytes := range into {
		var rate float64
		for _, l := range g.WAN {
			if g.Sites[l.To].Name == site {
				rate += float64(l.Capacity)
			}
		}
		seconds = max(seconds, float64(bytes)/rate)
	}
	return seconds
}

// checkReports compares the reports of ranks at hosts with what the grid file allows.
func (c *cluster) checkReports(t *testing.T, g *gridfile.Grid, at []string, reports []*report, into map[string]int64) {
	t.Helper()
	bound := trueBound(g, into)
	took := slowest(reports)
	t.Logf("%.2f × the bound of the grid file, %.2f s", took/bound, bound)
	if took < bound {
		t.Errorf("it took %.2f s, less than the bound of the grid file, %.2f s", took, bound)
	}
	for r, rep := range reports {
		if rep.Ranks != len(at) || rep.Hosts != len(c.nodes) {
			t.Errorf("rank %d: report of %d ranks on %d hosts, want %d on %d", r, rep.Ranks, rep.Hosts, len(at), len(c.nodes))
		}
	}
}

// What crosses beside the payload, as a share of it: headers (4.8 %), acknowledgements of what goes the
// other way, heartbeats, pings and probes, 7 to 12 % in all; and what is sent again: packets that full queues
// dropped elsewhere than on the last link, and packets that came late because this machine
// was busy, which is the most part of this and bounded only against a run away.
const around = 0.75

// checkCrossings checks that blocks have come into each site once: by what the agents of its hosts
// report to have received from others, each chunk counted once, in which a second crossing of the
// smallest block shows whole; and that the links themselves have carried at least that since before,
// and not much more. With relays, an alltoall's, blocks for other sites, and pieces of them, may have come in beside: no more than
// those of the site itself.
func (c *cluster) checkCrossings(t *testing.T, before *stats, at []string, reports []*report, into map[string]int64, smallest int64, relays bool) {
	t.Helper()
	after := c.stats(t)
	for site, bytes := range into {
		var received int64
		seen := make(map[string]bool)
		for r, name := range at {
			if seen[name] || c.node(name).Site != site {
				continue
			}
			seen[name] = true // ranks of one host have the same report
			for _, peer := range reports[r].Peers {
				if c.node(peer.Host).Site != site {
					received += peer.Received
				}
			}
		}
		carried := (after.into(site) - before.into(site)) / float64(max(bytes, received))
		t.Logf("site %s: %d bytes of blocks must come in, %d have; the links in have carried %.3f × these", site, bytes, received, carried)
		passing := received - bytes
		if relays && passing >= 0 && passing <= bytes {
			bytes, passing = received, 0
		}
		if passing < 0 || passing >= smallest {
			t.Errorf("site %s: blocks of %d bytes have come in for %d: not each of them once", site, received, bytes)
		}
		if carried < 1 || carried > 1+around {
			t.Errorf("site %s: the links in have carried %.3f × the blocks that came, want 1 to %v", site, carried, 1+around)
		}
	}
}
