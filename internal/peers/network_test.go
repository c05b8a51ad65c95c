package main

import (
	"math"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
)

func loaded(t *testing.T, line string) *network {
	t.Helper()
	n, err := loadNetwork(parsed(t, line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return n
}

func (n *network) linkNames() string {
	var names []string
	for _, l := range n.links {
		names = append(names, l.name+":"+l.from+"→"+l.to)
	}
	return strings.Join(names, " ")
}

func TestGridNetwork(t *testing.T) {
	n := loaded(t, "--grid testdata/small.yaml")
	if n.name != "small" || len(n.hosts) != 4 || n.hosts[3].Name != "b1" {
		t.Errorf("%s: %v", n.name, n.hosts)
	}
	if got, want := n.linkNames(), "A:a0→a1 B:b0→b1 A→B:a0→b0 B→A:b0→a0"; got != want {
		t.Errorf("links %s, want %s", got, want)
	}
	// B→A at 2 Mbit/s carries the two blocks of B, and in an alltoall four.
	for c, blocks := range map[plan.Collective]float64{plan.Allgather: 2, plan.Alltoall: 4} {
		want := blocks * 65536 * 8 / 2e6
		if got, _, err := n.bound(c, "", 65536); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: bound of %v s, %v; want %v", c, got, err, want)
		}
	}
}

// TestShapedNetwork: bounds and what must cross links go by the sizes of blocks. In small.yaml A→B carries 4 Mbit/s and B→A 2; two hosts are at each site.
func TestShapedNetwork(t *testing.T) {
	n := loaded(t, "--grid testdata/small.yaml")
	const most = 100_000
	for _, tc := range []struct {
		c           plan.Collective
		shape       bench.Shape
		least, back int64 // bytes over both links, and over the slow one
	}{
		{plan.Allgather, "first", most + 3*1024, 2 * 1024},
		{plan.Allgather, "third", 2 * most, most}, // a0 and b1
		{plan.Allgather, bench.Even, 4 * most, 2 * most},
		{plan.Alltoall, "pair", most + 7*1024, 4 * 1024},
		{plan.Alltoall, bench.Even, 8 * most, 4 * most},
	} {
		if got := n.least(tc.c, tc.shape, most); got != tc.least {
			t.Errorf("%s %s: %d bytes must cross, want %d", tc.c, tc.shape, got, tc.least)
		}
		there := float64(tc.least-tc.back) * 8 / 4e6
		want := max(there, float64(tc.back)*8/2e6)
		if got, _, err := n.bound(tc.c, tc.shape, most); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s %s: bound of %v s, %v; want %v", tc.c, tc.shape, got, err, want)
		}
	}
}

func TestTopologyNetwork(t *testing.T) {
	n := loaded(t, "--topology aapc-conf-b --link-rate 5Mbps")
	if n.name != "aapc-conf-b" || len(n.hosts) != 32 {
		t.Fatalf("%s: %d hosts", n.name, len(n.hosts))
	}
	// A link in each switch, and one in each direction between switches.
	trunks := 0
	for _, l := range n.links {
		if l.rate.Mbps() != 5 || l.from == l.to {
			t.Errorf("link %+v", l)
		}
		if strings.Contains(l.name, "→") {
			trunks++
		}
	}
	if trunks != 6 || len(n.links) != 10 {
		t.Errorf("links %s", n.linkNames())
	}
	// Twice the rate, half the time.
	slow, _, err := n.bound(plan.Alltoall, "", 8192)
	fast, _, err2 := loaded(t, "--topology aapc-conf-b --link-rate 10Mbps").bound(plan.Alltoall, "", 8192)
	if err != nil || err2 != nil || slow <= 0 || math.Abs(slow/fast-2) > 1e-9 {
		t.Errorf("bounds %v and %v: %v, %v", slow, fast, err, err2)
	}
}

func TestNetworkRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"--grid no-such-grid":                              "no-such-grid",
		"--topology no-such-tree":                          "no-such-tree",
		"--topology aapc-conf-b --link-rate 5":             "--link-rate",
		"--topology testdata/small.yaml --link-rate 5Mbps": "small.yaml",
	} {
		if _, err := loadNetwork(parsed(t, line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", line, err, want)
		}
	}
}
