package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/probe/netmap"
)

// siteHosts is a map of n hosts of each of the sites, all ways alike.
func siteHosts(n int, rate netmap.BytesPerSec, sites ...string) *netmap.Snapshot {
	var hosts []netmap.Host
	for _, s := range sites {
		for i := range n {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("%s%d", s, i), Site: s})
		}
	}
	est := make([]netmap.Estimate, len(hosts)*len(hosts))
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Bandwidth: rate}
	}
	return netmap.NewSnapshot(3, hosts, est)
}

// switched is n hosts on one switch, or on four in a star or a chain, one after the other.
func switched(t *testing.T, n int, cables ...[2]int) wiring {
	t.Helper()
	if cables == nil {
		return over(nil, n)
	}
	home := make([]int, n)
	for i := range home {
		home[i] = 4 * i / n
	}
	tree, err := plan.NewTopology([]string{"s0", "s1", "s2", "s3"}, cables, siteHosts(n, 1, "A").Names(), home, 0)
	if err != nil {
		t.Fatal(err)
	}
	return over(tree, n)
}

// TestSmallInsideASite: how much goes straight, and how much in rounds.
func TestSmallInsideASite(t *testing.T) {
	star, chain := [][2]int{{0, 1}, {0, 2}, {0, 3}}, [][2]int{{0, 1}, {1, 2}, {2, 3}}
	for _, tt := range []struct {
		name             string
		n                int
		rate             float64
		cables           [][2]int
		straight, rounds int64
	}{
		{"few hosts", 8, 1e6, nil, 8 * straightBytes, 3600},
		{"as many as can be", maxStraight, 1e6, nil, maxStraight * straightBytes, 14400},
		{"too many", maxStraight + 1, 1e6, nil, 0, 14850},
		{"fast ports", 8, 1e9, nil, 8 * straightBytes, group.MaxRounds},
		{"slow ports", 8, 1e3, nil, 8 * straightBytes, 1500},
		{"four switches", 32, 12.5e6, star, 32 * straightBytes, 155_000},    // 72 contributions leave a switch, and 31 a port
		{"a chain of them", 32, 12.5e6, chain, 32 * straightBytes, 139_500}, // 80 go through its middle
		{"slow ones", 32, 1.25e6, chain, 10_625, 13_950},
	} {
		w := switched(t, tt.n, tt.cables...)
		if got := w.straightLimit(tt.rate); got != tt.straight {
			t.Errorf("%s: %d bytes go straight, want %d", tt.name, got, tt.straight)
		}
		if got := w.roundsLimit(group.Tree{Limit: 1500, Rate: tt.rate}); got != tt.rounds {
			t.Errorf("%s: %d bytes go in rounds, want %d", tt.name, got, tt.rounds)
		}
	}
}

// TestAlltoallsStraight: up to which size alltoalls go straight.
func TestAlltoallsStraight(t *testing.T) {
	const mbit = 1e6 / 8
	for _, tt := range []struct {
		n         int
		rate      float64
		cables    [][2]int
		goes, not int64 // bytes from each host to each
	}{
		{24, 5 * mbit, nil, 1500, 2 << 10},
		{24, 20 * mbit, nil, 6 << 10, 8 << 10},
		{24, 100 * mbit, nil, 16 << 10, 32 << 10},
		{8, 100 * mbit, nil, 16 << 10, 32 << 10},
		{24, 1000 * mbit, nil, 16 << 10, 32 << 10},
		{8, 5 * mbit, nil, 4 << 10, 8 << 10},
		{32, 100 * mbit, nil, 16 << 10, 32 << 10},
		{32, 100 * mbit, [][2]int{{0, 1}, {0, 2}, {0, 3}}, 3 << 10, 4 << 10},
	} {
		limit := switched(t, tt.n, tt.cables...).acrossLimit(tt.rate) / int64(tt.n)
		if limit < tt.goes || limit >= tt.not {
			t.Errorf("%d hosts at %g bytes a second: %d bytes of each go straight, want %d and not %d", tt.n, tt.rate, limit, tt.goes, tt.not)
		}
	}
}

// TestFar: up to which size alltoalls go straight between sites.
func TestFar(t *testing.T) {
	const mbit = 1e6 / 8
	for name, tt := range map[string]struct {
		n      int // hosts of each of two sites
		rate   netmap.BytesPerSec
		saved  time.Duration
		change func(e *netmap.Estimate)
		block  int64
	}{
		"few hosts, fast links":    {3, 1000 * mbit, 50 * time.Millisecond, nil, farBytes},
		"many hosts":               {8, 1000 * mbit, 50 * time.Millisecond, nil, farBurst/64 - farHead},
		"too many hosts":           {17, 1000 * mbit, 50 * time.Millisecond, nil, 0},
		"a slow link":              {3, 2 * mbit, 40 * time.Millisecond, nil, 961}, // 10,000 bytes in nine messages
		"too slow a link":          {8, 1 * mbit, 40 * time.Millisecond, nil, 0},
		"more for several":         {3, 1 * mbit, 40 * time.Millisecond, func(e *netmap.Estimate) { e.Capacity, e.Known = 2*mbit, e.Known|netmap.FieldCapacity }, 961},
		"losses":                   {3, 1000 * mbit, 50 * time.Millisecond, func(e *netmap.Estimate) { e.Loss, e.LossOf, e.Known = 0.02, 9999, e.Known|netmap.FieldLoss }, 0},
		"a packet for each pair":   {3, 1000 * mbit, 50 * time.Millisecond, func(e *netmap.Estimate) { e.Loss, e.LossOf, e.Known = 0.01, 9999, e.Known|netmap.FieldLoss }, straightBytes},
		"losses on a slow link":    {3, 4 * mbit, 40 * time.Millisecond, func(e *netmap.Estimate) { e.Loss, e.LossOf, e.Known = 0.01, 9999, e.Known|netmap.FieldLoss }, 961}, // as all goes twice
		"few losses":               {3, 1000 * mbit, 50 * time.Millisecond, func(e *netmap.Estimate) { e.Loss, e.LossOf, e.Known = 0.001, 9999, e.Known|netmap.FieldLoss }, farBytes},
		"bandwidth is not known":   {3, 1000 * mbit, 50 * time.Millisecond, func(e *netmap.Estimate) { e.Known = netmap.FieldLatency }, 0},
		"the coordinator is close": {3, 1000 * mbit, 0, nil, 0},
	} {
		known := siteHosts(tt.n, tt.rate, "A", "B")
		var est []netmap.Estimate
		for i := range 2 * tt.n {
			for j := range 2 * tt.n {
				e := known.Estimate(i, j)
				if tt.change != nil && (i < tt.n) != (j < tt.n) {
					tt.change(&e)
				}
				est = append(est, e)
			}
		}
		snap := netmap.NewSnapshot(3, known.Hosts(), est)
		if got, want := farLimit(snap, leaders(snap), tt.saved), tt.block*int64(2*tt.n); got != want {
			t.Errorf("%s: %d bytes of a host go straight, want %d", name, got, want)
		}
	}
}

// TestFastest: what most pairs do not reach counts for nothing.
func TestFastest(t *testing.T) {
	for _, tt := range []struct {
		hosts, wild int
		want        float64
	}{{1, 0, 0}, {2, 0, 1e6}, {5, 2, 1e6}, {24, 50, 1e6}, {24, 60, 9e6}} {
		known := siteHosts(tt.hosts, 1e6, "B")
		var est []netmap.Estimate
		wild := tt.wild
		for i := range tt.hosts {
			for j := range tt.hosts {
				e := known.Estimate(i, j)
				if i != j && wild > 0 {
					e.Bandwidth, wild = 9e6, wild-1
				}
				est = append(est, e)
			}
		}
		if got := fastest(netmap.NewSnapshot(3, known.Hosts(), est)); got != tt.want {
			t.Errorf("%d hosts, %d wild readings: %g, want %g", tt.hosts, tt.wild, got, tt.want)
		}
	}
}

// cabled is a map of 16 hosts of a site whose measurements suggest two switches, at which they are.
func cabled(site string, home func(host int) int) *netmap.Snapshot {
	one := siteHosts(16, 12e6, site)
	var est []netmap.Estimate
	for i := range 16 {
		for j := range 16 {
			e := one.Estimate(i, j)
			if home(i) != home(j) && (i*7+j*3)%3 == 0 { // found to have less every third time
				e.Bandwidth /= 3
			}
			est = append(est, e)
		}
	}
	return netmap.NewSnapshot(3, one.Hosts(), est)
}

// TestCablesGuessed: where measurements suggest that hosts hang at two switches, less goes straight and in rounds.
func TestCablesGuessed(t *testing.T) {
	a := shapedAgent(t, twoSwitches) // of site A
	one, two := siteHosts(16, 12e6, "B"), cabled("B", func(i int) int { return i / 8 })
	if planner.GuessSwitches(one) != nil || planner.GuessSwitches(two) == nil {
		t.Fatal("the guess is wrong")
	}
	few, many := a.treeOver(two), a.treeOver(one)
	if few.Rate != many.Rate || few.Across >= many.Across || few.Hops != many.Hops || few.Rounds <= few.Limit || few.Across <= few.Straight {
		t.Errorf("over cables %+v, without %+v", few, many)
	}
}

// TestDeclaredIsNotGuessed: a declaration of switches, or of one, overrules what measurements suggest. Hosts stand as they do in either.
func TestDeclaredIsNotGuessed(t *testing.T) {
	const (
		one = `{"switches":["s0"],"links":[],"hosts":{"A0":"s0"},"bandwidth_mbps":100}`
		two = `{"switches":["s0","s1"],"links":[["s0","s1"]],"hosts":{"A0":"s0","A1":"s1","A2":"s0","A3":"s1"},"bandwidth_mbps":100}`
	)
	crossed := cabled("A", func(i int) int { return i % 2 })
	for _, tt := range []struct {
		name, file string
		snap       *netmap.Snapshot
		switches   int
		order      []int
	}{
		{"declared two", two, siteHosts(4, 12e6, "A"), 2, []int{0, 2, 1, 3}},
		{"declared two, and all at one", strings.ReplaceAll(two, `"s1","A2"`, `"s0","A2"`), siteHosts(3, 12e6, "A"), 1, nil},
		{"a host that is not declared", two, netmap.NewSnapshot(3, siteHosts(5, 12e6, "A").Hosts(), make([]netmap.Estimate, 25)), 1, nil},
		{"declared one", one, crossed, 1, nil},
		{"guessed", one, cabled("B", func(i int) int { return i / 8 }), 3, nil}, // and one in the middle
		{"guessed, every other host", one, cabled("B", func(i int) int { return i % 2 }), 3, []int{0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15}},
	} {
		w := shapedAgent(t, tt.file).wiringOf(tt.snap)
		switches := 1
		if w.tree != nil {
			switches = len(w.tree.Switches())
		}
		if order := w.order(); switches != tt.switches || !slices.Equal(order, tt.order) {
			t.Errorf("%s: %d switches in the order %v, want %d and %v", tt.name, switches, order, tt.switches, tt.order)
		}
	}
}
