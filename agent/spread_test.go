package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/group"
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

// TestSmallInsideASite: how much goes straight, and how much in rounds.
func TestSmallInsideASite(t *testing.T) {
	for _, tt := range []struct {
		name             string
		n                int
		rate             float64
		w                wiring
		straight, rounds int64
	}{
		{"few hosts", 8, 1e6, oneSwitch, 8 * straightBytes, 3600},
		{"as many as can be", maxStraight, 1e6, oneSwitch, maxStraight * straightBytes, 14400},
		{"too many", maxStraight + 1, 1e6, oneSwitch, 0, 14850},
		{"fast ports", 8, 1e9, oneSwitch, 8 * straightBytes, group.MaxRounds},
		{"slow ports", 8, 1e3, oneSwitch, 8 * straightBytes, 1500},
		{"guessed switches", 16, 1e6, guessedSwitches, 16 * straightBytes, 2080},
		{"several switches", 8, 1e9, severalSwitches, 0, 1500},
		{"several sites", 8, 1e9, severalSites, 0, 0},
	} {
		if got := straightLimit(tt.n, tt.w); got != tt.straight {
			t.Errorf("%s: %d bytes go straight, want %d", tt.name, got, tt.straight)
		}
		if got := roundsLimit(tt.n, group.Tree{Limit: 1500, Rate: tt.rate}, tt.w); got != tt.rounds {
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
		w         wiring
		goes, not int64 // bytes from each host to each
	}{
		{24, 5 * mbit, oneSwitch, 400, 512},
		{24, 100 * mbit, oneSwitch, 8 << 10, 16 << 10},
		{8, 100 * mbit, oneSwitch, 16 << 10, 32 << 10},
		{24, 1000 * mbit, oneSwitch, 16 << 10, 32 << 10},
		{8, 5 * mbit, oneSwitch, 1 << 10, 2 << 10},
		{32, 100 * mbit, oneSwitch, 4 << 10, 8 << 10},
		{32, 100 * mbit, guessedSwitches, 3 << 10, 4 << 10},
	} {
		limit := acrossLimit(tt.n, tt.rate, tt.w) / int64(tt.n)
		if limit < tt.goes || limit >= tt.not {
			t.Errorf("%d hosts at %g bytes a second: %d bytes of each go straight, want %d and not %d", tt.n, tt.rate, limit, tt.goes, tt.not)
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

// cabled is a map of 16 hosts of a site whose measurements suggest two switches.
func cabled(site string) *netmap.Snapshot {
	one := siteHosts(16, 12e6, site)
	var est []netmap.Estimate
	for i := range 16 {
		for j := range 16 {
			e := one.Estimate(i, j)
			if i/8 != j/8 && (i*7+j*3)%3 == 0 { // found to have less every third time
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
	one, two := siteHosts(16, 12e6, "B"), cabled("B")
	if planner.SeveralSwitches(one) || !planner.SeveralSwitches(two) {
		t.Fatal("the guess is wrong")
	}
	few, many := a.treeOver(two), a.treeOver(one)
	if few.Rate != many.Rate || few.Rounds >= many.Rounds || few.Across >= many.Across || few.Hops != many.Hops || few.Rounds <= few.Limit || few.Across <= few.Straight {
		t.Errorf("over cables %+v, without %+v", few, many)
	}
}

// TestDeclaredIsNotGuessed: a declaration of switches, or of one, overrules what measurements suggest.
func TestDeclaredIsNotGuessed(t *testing.T) {
	const one = `{"switches":["s0"],"links":[],"hosts":{"a0":"s0","a1":"s0","a2":"s0"},"bandwidth_mbps":100}`
	for _, tt := range []struct {
		name, file string
		site       string
		want       wiring
	}{
		{"declared two", twoSwitches, "A", severalSwitches},
		{"declared one", one, "A", oneSwitch},
		{"of another site", one, "B", guessedSwitches},
	} {
		if got := shapedAgent(t, tt.file).wiringOf(cabled(tt.site)); got != tt.want {
			t.Errorf("%s: wiring %d, want %d", tt.name, got, tt.want)
		}
	}
}
