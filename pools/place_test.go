package pools

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// placedGrid has two to four sites of one to five hosts. stands says where each host is, and
// its label may say otherwise.
func placedGrid(rng *rand.Rand, mislabel int, noise float64) (s *netmap.Snapshot, wrong []string) {
	const lan, lanDelay = 100.0, 80 * time.Microsecond
	sites := 2 + rng.IntN(3)
	var hosts []netmap.Host
	var stands []int
	size := make([]int, sites)
	for i := range sites {
		size[i] = 1 + rng.IntN(5)
		if mislabel > 0 {
			size[i] += 2 // three or more
		}
		for k := range size[i] {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("%c%d", 'a'+i, k), Site: string(rune('A' + i))})
			stands = append(stands, i)
		}
	}
	shift := 1 + rng.IntN(sites-1)
	for at := range mislabel {
		// One host leaves a label and one comes at most: two of three are right at the least.
		h := slices.Index(stands, at) + rng.IntN(size[at])
		hosts[h].Site = string(rune('A' + (at+shift)%sites))
		wrong = append(wrong, hosts[h].Name)
	}
	slices.Sort(wrong)
	wan := make([]float64, sites*sites)
	delay := make([]time.Duration, sites*sites)
	for i := range wan {
		wan[i] = 1 + 20*rng.Float64()
		delay[i] = 5*time.Millisecond + time.Duration(rng.Int64N(int64(100*time.Millisecond)))
	}
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			rate, latency := lan, lanDelay
			if a, b := stands[i], stands[j]; a != b {
				rate, latency = wan[a*sites+b], delay[min(a, b)*sites+max(a, b)]
			}
			est[i*n+j] = netmap.Estimate{
				Known: netmap.FieldBandwidth | netmap.FieldLatency, Source: netmap.SourceProbed,
				Bandwidth: netmap.BytesPerSec(rate*(1+noise*(2*rng.Float64()-1))) * netmap.Mbps,
				Latency:   time.Duration(float64(latency) * (1 + 2*noise*rng.Float64())),
			}
		}
	}
	return netmap.NewSnapshot(1, hosts, est), wrong
}

// Noise of 30 % on rates and 60 % on delays puts no host into doubt.
func TestNoWarningOnNoise(t *testing.T) {
	for seed := range uint64(1000) {
		s, _ := placedGrid(rand.New(rand.NewPCG(seed, 1)), 0, 0.3)
		if found := Misplaced(s); len(found) > 0 {
			t.Fatalf("seed %d: %v", seed, found)
		}
	}
}

// A host with the label of another site is found, with noise, and no other is; the tree puts it where it
// stands.
func TestMisplacedHosts(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s, wrong := placedGrid(rng, 1+rng.IntN(2), 0.2)
		var names []string
		for _, m := range Misplaced(s) {
			names = append(names, m.Host)
			// A host's name begins with the site where it stands.
			if m.Like != strings.ToUpper(m.Host[:1]) || m.Label != s.Host(s.Index(m.Host)).Site {
				t.Fatalf("seed %d: %v", seed, m)
			}
		}
		if !slices.Equal(names, wrong) {
			t.Fatalf("seed %d: found %v, mislabelled are %v", seed, names, wrong)
		}
		g := track(t, s, seed, TrackConfig{})
		g.est = slices.Clone(estimates(s))
		g.observe()
		leaves, sites := g.current().Tree.Leaves(), map[byte]bool{}
		for _, leaf := range leaves {
			sites[g.current().Tree.name(leaf[0])[0]] = true
		}
		if len(leaves) != len(sites) {
			t.Fatalf("seed %d: %d leaves for %d sites:\n%v", seed, len(leaves), len(sites), g.current().Tree)
		}
		for _, leaf := range leaves {
			for _, h := range leaf {
				if a, b := g.current().Tree.name(h), g.current().Tree.name(leaf[0]); a[0] != b[0] {
					t.Fatalf("seed %d: %s is with %s:\n%v", seed, a, b, g.current().Tree)
				}
			}
		}
	}
}

func estimates(s *netmap.Snapshot) []netmap.Estimate {
	var est []netmap.Estimate
	for i := range s.N() {
		for j := range s.N() {
			est = append(est, s.Estimate(i, j))
		}
	}
	return est
}

// What cannot be told is not told: unlabelled hosts, sites of one host, predictions, nothing measured.
func TestNoWarningWithoutGround(t *testing.T) {
	said := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s, wrong := placedGrid(rng, 1, 0.1)
		said += len(Misplaced(s))
		for name, change := range map[string]func(hosts []netmap.Host, est []netmap.Estimate){
			"unlabelled": func(hosts []netmap.Host, _ []netmap.Estimate) {
				for i := range hosts {
					if hosts[i].Name == wrong[0] {
						hosts[i].Site = ""
					}
				}
			},
			"site of its own": func(hosts []netmap.Host, _ []netmap.Estimate) {
				for i := range hosts {
					if hosts[i].Name == wrong[0] {
						hosts[i].Site = "new"
					}
				}
			},
			"predicted": func(_ []netmap.Host, est []netmap.Estimate) {
				for i := range est {
					est[i].Source = netmap.SourcePredicted
				}
			},
			"unknown": func(_ []netmap.Host, est []netmap.Estimate) { clear(est) },
		} {
			hosts, est := slices.Clone(s.Hosts()), estimates(s)
			change(hosts, est)
			if found := Misplaced(netmap.NewSnapshot(1, hosts, est)); len(found) > 0 {
				t.Fatalf("seed %d, %s: %v", seed, name, found)
			}
		}
	}
	if said < 200 {
		t.Errorf("%d warnings of 200 without any change: the test shows little", said)
	}
}

// A warning waits for its dwell, names host, label and site, and goes when the label is right. It makes
// no epoch.
func TestTrackerWarns(t *testing.T) {
	s := abc()
	hosts := slices.Clone(s.Hosts())
	hosts = append(hosts, netmap.Host{Name: "a2", Site: "C"}) // stands in A
	at := []int{0, 1, 2, 3, 4, 5, 0}
	grid := snapshot(hosts, func(i, j int) float64 {
		if a, b := at[i]/2, at[j]/2; a == b {
			return 100
		}
		b, _ := s.Bandwidth(at[i], at[j])
		return b.Mbps()
	})
	g := track(t, grid, 1, TrackConfig{})
	for i := range hosts {
		for j := range hosts {
			g.latency[i*len(hosts)+j] = 40 * time.Millisecond
			if at[i]/2 == at[j]/2 {
				g.latency[i*len(hosts)+j] = 60 * time.Microsecond
			}
		}
	}
	g.measureAll(0.1)
	g.observe()
	if c := g.current(); len(c.Warnings) > 0 {
		t.Errorf("at once: %q", c.Warnings)
	}
	g.run(11*time.Second, 0.1)
	c := g.current()
	if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "host a2 is labelled C but measures like a host of A: ") || c.Epoch != 1 {
		t.Fatalf("epoch %d, %q", c.Epoch, c.Warnings)
	}
	if got := c.Tree.Leaves(); !slices.EqualFunc(got, [][]int{{0, 1, 2}, {5, 6}, {3, 4}}, slices.Equal) {
		t.Errorf("leaves %v of\n%v", got, c.Tree)
	}
	text := c.Warnings[0]
	g.run(time.Minute, 0.1)
	if c := g.current(); len(c.Warnings) != 1 || c.Warnings[0] != text {
		t.Errorf("the warning is not the same: %q", c.Warnings)
	}
	g.hosts[6].Site = "A"
	g.observe()
	g.run(11*time.Second, 0.1)
	if c := g.current(); len(c.Warnings) > 0 || c.Reason != "host a2 changed the site label: {A | C} | B" {
		t.Errorf("with the right label: %q, %q", c.Warnings, c.Reason)
	}
}
