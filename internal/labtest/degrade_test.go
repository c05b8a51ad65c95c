package labtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// How long agents may take to learn that a link has fallen to a quarter. The goals are 30 s on an
// idle grid and 5 s while an exchange crosses the link; what it took is logged. This grid is a minute
// old, in which hosts of small sites are taken by bulk and LogP sessions most of the time and
// nobody watches the link, and this machine may be busy.
const (
	relearnIdle  = 90 * time.Second
	relearnInUse = 45 * time.Second
)

// TestLinkDegrades takes three quarters of a link away on an idle grid, and of another one while an
// allgather crosses it. Nobody has set anything about probes.
func TestLinkDegrades(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "degrade", "testdata/three.yaml")
	g := load(t, c.file)
	c.waitMap(t, "a1")
	// The budget of a young grid is spent on what nobody has measured yet: let it settle.
	c.settle(t, "a1", g, "B", "C")

	t.Run("idle", func(t *testing.T) {
		watch := c.client(t, "a1", "pools", "--watch", "-o", "json")
		var before []poolsEvent
		e2etest.Eventually(t, relearnIdle, func() error {
			if before = poolsEvents(t, watch); len(before) == 0 || !strings.Contains(before[len(before)-1].Reason, "{B | C}") {
				return fmt.Errorf("the pool tree of a1: %v, want one with B and C close together", before)
			}
			return nil
		})
		changed := c.quarter(t, g, "B", "C")
		c.relearn(t, "a1", g, "B", "C", changed, relearnIdle, 2)
		// A and B are closer now than B and C.
		var after []poolsEvent
		e2etest.Eventually(t, relearnIdle-time.Since(changed), func() error {
			after = poolsEvents(t, watch)[len(before):]
			if len(after) == 0 || !strings.Contains(after[len(after)-1].Reason, "{A | B}") {
				return fmt.Errorf("the pool tree of a1: %v, want one with A and B close together", after)
			}
			return nil
		})
		last := after[len(after)-1]
		t.Logf("the pool tree of a1 was right %.1f s after the change: %v", time.Since(changed).Seconds(), after)
		if last.Epoch <= before[len(before)-1].Epoch || !strings.Contains(last.Reason, "fell") {
			t.Errorf("the new pool tree is %+v, want a higher epoch and why", last)
		}
		if len(after) > 1 {
			t.Errorf("one change made %d new trees: %v", len(after), after)
		}
		if out := succeed(t, c.client(t, "a1", "pools")); !strings.Contains(out, last.Reason) {
			t.Errorf("pools at a1 does not say %q:\n%s", last.Reason, out)
		}
		watch.Signal(syscall.SIGINT)
		if got := watch.Wait(t, patience); got != 0 {
			t.Errorf("the watch ended with status %d: %s", got, watch.Stderr.String())
		}
	})

	t.Run("in use", func(t *testing.T) {
		const seed, size = 13, 512 << 10
		at := c.of()
		in, out := e2etest.Random(t, seed, slices.Repeat([]int{size}, len(at))...), e2etest.Files(t, len(at))
		ps := c.ranks(t, "allgather", "degrade", at, in, out, "-o", "json")
		c.underWay(t, "b1", "degrade", slices.Index(at, "b1"))
		changed := c.quarter(t, g, "A", "B")
		for r, p := range ps {
			if p.Ended() {
				t.Fatalf("rank %d had ended before the change: the files are too small for this machine", r)
			}
		}
		// A direction that the exchange uses little is left to the probes, which wait for its end.
		c.relearn(t, "c0", g, "A", "B", changed, relearnInUse, 1)
		running := 0
		for _, p := range ps {
			if !p.Ended() {
				running++
			}
		}
		t.Logf("%d of %d ranks were still at work then", running, len(ps))
		finish(t, "an allgather over a link that degrades", ps, out, repeat(in, len(at)))
	})
}

// quarter takes three quarters of the links between two sites away, in the lab and in g, and returns when.
func (c *cluster) quarter(t *testing.T, g *gridfile.Grid, a, b string) time.Time {
	t.Helper()
	for i, l := range g.WAN {
		from, to := g.Sites[l.From].Name, g.Sites[l.To].Name
		if from == a && to == b || from == b && to == a {
			g.WAN[i].Bandwidth /= 4
			g.WAN[i].Capacity /= 4
			c.must(t, "set", from, to, "--one-way", "--bandwidth", gridfile.FormatRate(g.WAN[i].Bandwidth))
		}
	}
	return time.Now()
}

// between returns the pairs between two sites in the map of an agent, those that are within tolerance and
// the others. It is the map that plans are made from: after a change the pairs that were
// measured since speak for those of the same two sites that were not.
func (c *cluster) between(t *testing.T, at string, g *gridfile.Grid, a, b string) (right, off []pairing) {
	t.Helper()
	for _, p := range c.across(t, at, g, "--predict") {
		if from, to := c.node(p.from).Site, c.node(p.to).Site; !(from == a && to == b || from == b && to == a) {
			continue
		}
		if p.wrong() <= pairTolerance {
			right = append(right, p)
		} else {
			off = append(off, p)
		}
	}
	return right, off
}

// settle waits until an agent's map is right of all pairs between two sites.
func (c *cluster) settle(t *testing.T, at string, g *gridfile.Grid, a, b string) {
	t.Helper()
	e2etest.Eventually(t, settled, func() error {
		if right, off := c.between(t, at, g, a, b); len(off) > 0 || len(right) == 0 {
			return fmt.Errorf("%d pairs are right, these are off: %v", len(right), off)
		}
		return nil
	})
}

// relearn waits until an agent's map is right of one or both directions between two sites after a
// change, and logs when it was of the first pair of each and of all but one.
func (c *cluster) relearn(t *testing.T, at string, g *gridfile.Grid, a, b string, changed time.Time, limit time.Duration, directions int) {
	t.Helper()
	first, all := make(map[string]time.Duration), make(map[string]time.Duration)
	defer func() {
		for _, from := range []string{a, b} {
			t.Logf("the map at %s was right of one pair from %s %.1f s after the change, of all but one %.1f s after it (0: not yet)", at, from, first[from].Seconds(), all[from].Seconds())
		}
	}()
	e2etest.Eventually(t, limit-time.Since(changed), func() error {
		right, off := c.between(t, at, g, a, b)
		now := time.Since(changed)
		for _, from := range []string{a, b} {
			of := func(p pairing) bool { return c.node(p.from).Site == from }
			if first[from] == 0 && slices.ContainsFunc(right, of) {
				first[from] = now
			}
			// One pair may lag: its own last bulk probe is believed until its next.
			wrong := 0
			for _, p := range off {
				if of(p) {
					wrong++
				}
			}
			if all[from] == 0 && wrong <= 1 {
				all[from] = now
			}
		}
		if len(all) < directions {
			return fmt.Errorf("%d pairs are right, these are off: %v", len(right), off)
		}
		return nil
	})
}

// A poolsEvent is a line of pools --watch -o json.
type poolsEvent struct {
	Epoch  uint64
	Reason string
}

// poolsEvents returns the trees that a watch has printed so far, without lines that only
// bring other warnings.
func poolsEvents(t *testing.T, watch *e2etest.Process) (list []poolsEvent) {
	t.Helper()
	if watch.Ended() {
		t.Fatalf("%v has ended: %s", watch, watch.Stderr.String())
	}
	text := watch.Stdout.String()
	for line := range strings.Lines(text[:strings.LastIndexByte(text, '\n')+1]) {
		var e poolsEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		if len(list) == 0 || list[len(list)-1].Epoch != e.Epoch {
			list = append(list, e)
		}
	}
	return list
}
