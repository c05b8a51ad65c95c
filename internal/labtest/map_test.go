package labtest

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What the map of an idle grid may be off. Probes are within 1 % here on an idle machine; what is
// above is the margin for a busy one, where a train's packets are stamped late.
const (
	pairTolerance   = 0.15                 // of the bandwidth of one pair of hosts
	medianTolerance = 0.05                 // of its median over all pairs across sites
	rttTolerance    = 2 * time.Millisecond // of the round trip of one pair
)

// userShare is what of a link's IP bytes a map promises to the user (docs/design/decisions.md,
// "Rates are of payload, links are of IP bytes").
const userShare = 1248.0 / 1308

// A pairing is what a map says of two hosts of different sites, from the first to the second,
// and what the grid file says.
type pairing struct {
	from, to      string
	rate, truth   netmap.BytesPerSec // what one flow gets, payload
	rtt, distance time.Duration
}

// across reads the map of a host's agent and lays it beside the grid file.
func (c *cluster) across(t *testing.T, at string, g *gridfile.Grid, flags ...string) []pairing {
	t.Helper()
	text := succeed(t, c.client(t, at, append([]string{"map", "-o", "json"}, flags...)...))
	m, err := gridfile.Parse("gridagent map", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	measured, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	declared, err := g.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	place := make(map[string]int) // in the declared grid
	for i, h := range g.Hosts() {
		place[h.Name] = i
	}
	var list []pairing
	for i, from := range m.Hosts() {
		for j, to := range m.Hosts() {
			if from.Site == to.Site {
				continue
			}
			a, b := place[from.Name], place[to.Name]
			list = append(list, pairing{
				from: from.Name, to: to.Name,
				rate: measured.Estimate(i, j).Bandwidth, truth: userShare * declared.Estimate(a, b).Bandwidth,
				rtt:      measured.Estimate(i, j).Latency + measured.Estimate(j, i).Latency,
				distance: declared.Estimate(a, b).Latency + declared.Estimate(b, a).Latency,
			})
		}
	}
	return list
}

// wrong is by how much the rate is off.
func (p pairing) wrong() float64 { return math.Abs(float64(p.rate/p.truth) - 1) }

func (p pairing) String() string {
	return fmt.Sprintf("%s→%s: %s for %s of payload, round trip %v for %v",
		p.from, p.to, gridfile.FormatRate(p.rate), gridfile.FormatRate(p.truth), p.rtt, p.distance)
}

func load(t *testing.T, file string) *gridfile.Grid {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gridfile.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMapTellsTheTruth makes a cluster on three sites, in which nobody has set anything, and compares
// its map with the grid file: the first one that is whole in the median, and every pair once what was
// measured while this machine was busy has been measured again. Then iperf3 measures some pairs.
func TestMapTellsTheTruth(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "map", "testdata/three.yaml")
	g := load(t, c.file)
	for _, name := range []string{"a1", "b0", "c1"} {
		states := c.states(t, name)
		for _, h := range c.of() {
			if states[h] != "alive" {
				t.Errorf("%s believes that %s is %q", name, h, states[h])
			}
		}
	}
	began := time.Now()
	c.waitMap(t, "c1")
	t.Logf("the map was whole %.1f s after all hosts were there", time.Since(began).Seconds())

	list := c.across(t, "c1", g)
	if want := 2 * (3*2 + 3*2 + 2*2); len(list) != want {
		t.Fatalf("%d pairs of hosts across sites, want %d", len(list), want)
	}
	median, most := errorsOf(list)
	t.Logf("its bandwidths across sites are off by %.2f %% in the median, by %.2f %% at most", 100*median, 100*most)

	e2etest.Eventually(t, settled, func() error {
		list = c.across(t, "c1", g)
		if median, _ = errorsOf(list); !(median <= medianTolerance) {
			return fmt.Errorf("the bandwidths are off by %.1f %% in the median: %v", 100*median, list)
		}
		for _, p := range list {
			// Round trips that were taken while trains filled the links give way to later ones.
			if off := p.rtt - p.distance; off.Abs() > rttTolerance || !(p.wrong() <= pairTolerance) {
				return fmt.Errorf("off by %.1f %% and %v: %v", 100*p.wrong(), off, p)
			}
		}
		return nil
	})
	median, most = errorsOf(list)
	t.Logf("every bandwidth was within %v %%, every round trip within %v, %.1f s after all hosts were there: off by %.2f %% in the median, by %.2f %% at most",
		100*pairTolerance, rttTolerance, time.Since(began).Seconds(), 100*median, 100*most)
	t.Run("iperf3", func(t *testing.T) { c.iperf3(t, list) })
}

// settled is how long the map of an idle grid may take until all of it is true.
const settled = 90 * time.Second

// errorsOf returns by how much rates are off, in the median and at most.
func errorsOf(list []pairing) (median, most float64) {
	var wrong []float64
	for _, p := range list {
		wrong = append(wrong, p.wrong())
	}
	slices.Sort(wrong)
	return wrong[len(wrong)/2], wrong[len(wrong)-1]
}
