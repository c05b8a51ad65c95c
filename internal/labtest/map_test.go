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
func (c *cluster) across(t *testing.T, at string, g *gridfile.Grid) []pairing {
	t.Helper()
	text := succeed(t, c.client(t, at, "map", "-o", "json"))
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

// TestMapTellsTheTruth makes a cluster on three sites, and compares its map with the grid file:
// the first one that is whole in the median, and every pair once what was measured while this machine was
// busy has been measured again.
func TestMapTellsTheTruth(t *testing.T) {
	mustBePossible(t)
	g := load(t, "testdata/three.yaml")
	c := newCluster(t, "map", "testdata/three.yaml", "--probe-interval", "5s", "--probe-share", "0.1")
	for _, name := range []string{"a1", "b0", "c1"} {
		states := c.states(t, name)
		for _, h := range c.of() {
			if states[h] != "alive" {
				t.Errorf("%s believes that %s is %q", name, h, states[h])
			}
		}
	}
	began := time.Now()
	succeed(t, c.client(t, "c1", "map", "--wait", "1m"))
	t.Logf("the map was whole %.1f s after all hosts were there", time.Since(began).Seconds())

	list := c.across(t, "c1", g)
	if want := 2 * (3*2 + 3*2 + 2*2); len(list) != want {
		t.Fatalf("%d pairs of hosts across sites, want %d", len(list), want)
	}
	var wrong []float64
	for _, p := range list {
		wrong = append(wrong, p.wrong())
	}
	slices.Sort(wrong)
	median, most := wrong[len(wrong)/2], wrong[len(wrong)-1]
	t.Logf("its bandwidths across sites are off by %.2f %% in the median, by %.2f %% at most", 100*median, 100*most)
	if !(median <= medianTolerance) {
		t.Errorf("the bandwidths of the first map are off by %.1f %% in the median: %v", 100*median, list)
	}

	// Round trips that were taken while trains filled the links give way to later ones.
	e2etest.Eventually(t, 90*time.Second, func() error {
		for _, p := range c.across(t, "c1", g) {
			if off := p.rtt - p.distance; off.Abs() > rttTolerance || !(p.wrong() <= pairTolerance) {
				return fmt.Errorf("off by %.1f %% and %v: %v", 100*p.wrong(), off, p)
			}
		}
		return nil
	})
	t.Logf("every bandwidth was within %v %%, every round trip within %v, %.1f s after all hosts were there",
		100*pairTolerance, rttTolerance, time.Since(began).Seconds())
}
