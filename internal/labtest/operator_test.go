package labtest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestOperators makes a cluster of operators who declare things, rightly and wrongly, and who
// measure a pair themselves: site A has a switch tree, the two hosts of site B are given different
// ones, and a host of A is told that it stands in B. The network holds one flow from A to B to an
// eighth of the link.
func TestOperators(t *testing.T) {
	mustBePossible(t)
	mustBeAll(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// a0 to a3 take turns on two switches: in the order of ranks each way between the switches carries
	// two streams of a ring, in the best order one.
	switches := map[string]string{
		"a0": file("a.json", `{"switches":["s0","s1"],"links":[["s0","s1"]],"hosts":{"a0":"s0","a1":"s1","a2":"s0","a3":"s1"},"bandwidth_mbps":20}`),
		"b0": file("b0.json", `{"switches":["s0"],"links":[],"hosts":{"b0":"s0","b1":"s0"},"bandwidth_mbps":20}`),
		"b1": file("b1.json", `{"switches":["s0","s1"],"links":[["s0","s1"]],"hosts":{"b0":"s0","b1":"s1"},"bandwidth_mbps":20}`),
	}
	c := newClusterWith(t, "operators", "testdata/capped.yaml", func(n *node) {
		if n.Name == misplaced {
			n.label = "B"
		}
		// a1 to a3 declare nothing: one host of a site is enough.
		if f := switches[n.Name]; f != "" {
			n.flags = append(n.flags, "--switches", f)
		}
	})
	g := load(t, c.file)
	c.waitMap(t, "a1")

	t.Run("switches", func(t *testing.T) { c.ringOnSwitches(t, c.of("A")[:4]) })
	t.Run("probe", func(t *testing.T) { c.probe(t, g) })
	t.Run("warnings", func(t *testing.T) { c.warnings(t) })
}

// misplaced is the host of site A that is told to be of B.
const misplaced = "a4"

// ringOnSwitches runs an allgather at hosts whose switch tree is declared.
func (c *cluster) ringOnSwitches(t *testing.T, at []string) {
	const seed, size = 14, 300 << 10
	in, out := e2etest.Random(t, seed, slices.Repeat([]int{size}, len(at))...), e2etest.Files(t, len(at))
	reports := finish(t, "an allgather on two switches", c.ranks(t, "allgather", "ring", at, in, out, "-o", "json"), out, repeat(in, len(at)))
	for r, rep := range reports {
		if rep.Algorithm != "lr3" {
			t.Errorf("rank %d: algorithm %s, want lr3, which reads the declared switches", r, rep.Algorithm)
		}
	}
	// a0 and a2 are on one switch, a1 and a3 on the other.
	crossing := 0
	for r, rep := range reports {
		var from []string
		for _, peer := range rep.Peers {
			if peer.Received > 0 {
				from = append(from, peer.Host)
			}
			if peer.Received > 0 && slices.Index(at, peer.Host)%2 != r%2 {
				crossing++
			}
		}
		if len(from) != 1 {
			t.Errorf("%s has received from %v, in a ring it does from one host", at[r], from)
		}
	}
	if crossing != 2 {
		t.Errorf("%d streams cross between the two switches, want one each way", crossing)
	}
}

// What a probe on request may be off here. One flow and several are measured while this
// machine runs other things too; the numbers of issue 5 are checked in virtual time (internal/accuracy).
const (
	capacityTolerance = 0.25
	kneeFactor        = 2
)

// probe asks one host for a measurement on another one, over the link that holds one flow to an eighth.
func (c *cluster) probe(t *testing.T, g *gridfile.Grid) {
	l := g.WAN[0]
	if g.Sites[l.From].Name != "A" || !(l.Capacity > l.Bandwidth) {
		t.Fatalf("the first link of %s is %+v", c.file, l)
	}
	began := time.Now()
	p := c.client(t, "a0", "probe", "a1", "b1", "--rtt", "--bandwidth", "--logp", "-o", "json")
	var one struct {
		RTT       float64 `json:"rtt_s"`
		Bandwidth float64 `json:"bandwidth_mbps"`
		LogP      []struct {
			Size    int64   `json:"size_bytes"`
			Send    float64 `json:"send_overhead_s"`
			Receive float64 `json:"receive_overhead_s"`
			Gap     float64 `json:"gap_s"`
		}
	}
	decode(t, succeed(t, p), &one)
	flow := (userShare * l.Bandwidth).Mbps()
	distance := (2 * l.Latency).Seconds()
	t.Logf("a1→b1 in %.1f s: round trip %.4g s for %.4g, one flow %.4g Mbit/s for %.4g", time.Since(began).Seconds(), one.RTT, distance, one.Bandwidth, flow)
	if off := one.RTT - distance; math.Abs(off) > rttTolerance.Seconds() {
		t.Errorf("a round trip of %v s, want %v", one.RTT, distance)
	}
	if !(math.Abs(one.Bandwidth/flow-1) <= pairTolerance) {
		t.Errorf("one flow gets %v Mbit/s, want %v", one.Bandwidth, flow)
	}
	if len(one.LogP) < 2 {
		t.Fatalf("parametrised LogP of %d points", len(one.LogP))
	}
	for i, at := range one.LogP {
		if !(at.Send > 0 && at.Receive > 0 && at.Gap >= at.Send && at.Gap >= at.Receive) {
			t.Errorf("a point of LogP is %+v: overheads are above 0, and the gap is no less", at)
		}
		if i > 0 && (at.Size <= one.LogP[i-1].Size || at.Gap < one.LogP[i-1].Gap) {
			t.Errorf("LogP falls from %+v to %+v", one.LogP[i-1], at)
		}
	}
	last := one.LogP[len(one.LogP)-1]
	rate := 8e-6 * float64(last.Size) / last.Gap
	t.Logf("LogP: %d points; messages of %d bytes follow each other at %.4g Mbit/s", len(one.LogP), last.Size, rate)
	if !(math.Abs(rate/flow-1) <= capacityTolerance) {
		t.Errorf("by its gap, one flow of messages of %d bytes gets %v Mbit/s, want %v", last.Size, rate, flow)
	}

	began = time.Now()
	var many struct {
		Capacity float64 `json:"capacity_mbps"`
		Lanes    float64
		Curve    []struct {
			Lanes int
			Mbps  netmap.BytesPerSec `json:"bandwidth_mbps"`
		}
	}
	decode(t, succeed(t, c.client(t, "a0", "probe", "a2", "b0", "--capacity", "--timeout", "80s", "-o", "json")), &many)
	capacity, knee := (userShare * l.Capacity).Mbps(), float64(l.Capacity/l.Bandwidth)
	t.Logf("a2→b0 in %.1f s: capacity %.4g Mbit/s for %.4g, %v lanes for %v: %v", time.Since(began).Seconds(), many.Capacity, capacity, many.Lanes, knee, many.Curve)
	if !(math.Abs(many.Capacity/capacity-1) <= capacityTolerance) {
		t.Errorf("several flows get %v Mbit/s, want %v", many.Capacity, capacity)
	}
	if many.Lanes < knee/kneeFactor || many.Lanes > knee*kneeFactor {
		t.Errorf("%v lanes fill the link, want %v to %v", many.Lanes, knee/kneeFactor, knee*kneeFactor)
	}
}

// warnings checks that the operators are told of what they have done wrong, everywhere.
func (c *cluster) warnings(t *testing.T) {
	for _, at := range []string{"a1", misplaced, "b1"} {
		e2etest.Eventually(t, relearnIdle, func() error {
			text := succeed(t, c.client(t, at, "status"))
			for _, want := range []string{
				"warning: host " + misplaced + " is labelled B but measures like a host of A",
				"warning: site B: hosts b0 and b1 declare different",
			} {
				if !strings.Contains(text, want) {
					return fmt.Errorf("status at %s does not say %q:\n%s", at, want, text)
				}
			}
			return nil
		})
	}
	text := succeed(t, c.client(t, "a1", "pools"))
	t.Logf("pools at a1:\n%s", text)
	if !strings.Contains(text, "warning: host "+misplaced+" is labelled B") {
		t.Errorf("pools does not warn of %s", misplaced)
	}
}
