package labtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// relearn is how long the agents of TestLinkDegrades may take to learn of a change. They measure
// each pair anew after 5 s, two trains must agree, and both together may take 10 % of the link.
const relearn = 90 * time.Second

// TestLinkDegrades takes three quarters of a link away while an allgather crosses it.
func TestLinkDegrades(t *testing.T) {
	mustBePossible(t)
	g := load(t, "testdata/three.yaml")
	c := newCluster(t, "degrade", "testdata/three.yaml", "--probe-interval", "5s", "--probe-share", "0.1")
	succeed(t, c.client(t, "b0", "map", "--wait", "1m"))

	const seed, size = 13, 256 << 10
	at := c.of()
	in, out := e2etest.Random(t, seed, slices.Repeat([]int{size}, len(at))...), e2etest.Files(t, len(at))
	ps := c.ranks(t, "allgather", "degrade", at, in, out, "-o", "json")
	c.underWay(t, "c1", "degrade", len(at)-1)
	changed := time.Now()
	c.must(t, "set", "B", "C", "--one-way", "--bandwidth", "1.25Mbps") // from 5
	c.must(t, "set", "C", "B", "--one-way", "--bandwidth", "1.5Mbps")  // from 6
	for r, p := range ps {
		if p.Ended() {
			t.Fatalf("rank %d had ended before the change: the files are too small for this machine", r)
		}
	}
	finish(t, "an allgather over a link that degrades", ps, out, repeat(in, len(at)))
	ended := time.Now()

	for i, l := range g.WAN {
		if g.Sites[l.From].Name != "A" && g.Sites[l.To].Name != "A" {
			g.WAN[i].Bandwidth /= 4
			g.WAN[i].Capacity /= 4
		}
	}
	var first time.Duration
	e2etest.Eventually(t, relearn, func() error {
		var off []pairing
		all := 0
		for _, p := range c.across(t, "b0", g) {
			if c.node(p.from).Site != "A" && c.node(p.to).Site != "A" {
				all++
				if !(p.wrong() <= pairTolerance) {
					off = append(off, p)
				}
			}
		}
		if first == 0 && len(off) < all {
			first = time.Since(changed)
		}
		if len(off) > 0 {
			return fmt.Errorf("%d of %d pairs have not been found slower: %v", len(off), all, off)
		}
		return nil
	})
	t.Logf("the map had the first pair right %.1f s after the change, all %.1f s after it and %.1f s after the allgather",
		first.Seconds(), time.Since(changed).Seconds(), time.Since(ended).Seconds())
}
