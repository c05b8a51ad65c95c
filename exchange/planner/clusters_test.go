package planner

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// ofGrid is the problem over the hosts of a grid file.
func ofGrid(t *testing.T, text string) *Problem {
	t.Helper()
	g, err := gridfile.Parse("g.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pools.Build(snap, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &Problem{Snapshot: snap, Tree: tree}
}

// TestOneHostSites: four sites of one host, two fast links and four slow ones. Bandwidth
// makes two leaf pools of them, but their hosts share no LAN: every link is a pipe of
// its own, and a block of 1 MiB over each takes 1 MiB / 2 Mbit/s.
func TestOneHostSites(t *testing.T) {
	p := ofGrid(t, `
sites: [{name: A, hosts: 1, lan: {bandwidth: 1Gbps, latency: 10us}}, {name: B, hosts: 1, lan: {bandwidth: 1Gbps, latency: 10us}},
  {name: C, hosts: 1, lan: {bandwidth: 1Gbps, latency: 10us}}, {name: D, hosts: 1, lan: {bandwidth: 1Gbps, latency: 10us}}]
wan:
  - {from: A, to: B, bandwidth: 10Mbps, latency: 10ms, both: true}
  - {from: C, to: D, bandwidth: 10Mbps, latency: 10ms, both: true}
  - {from: A, to: C, bandwidth: 2Mbps, latency: 10ms, both: true}
  - {from: A, to: D, bandwidth: 2Mbps, latency: 10ms, both: true}
  - {from: B, to: C, bandwidth: 2Mbps, latency: 10ms, both: true}
  - {from: B, to: D, bandwidth: 2Mbps, latency: 10ms, both: true}
`)
	if leaves, clusters := p.Tree.Leaves(), p.Clusters(); len(leaves) != 2 || len(clusters) != 4 {
		t.Fatalf("leaves %v, clusters %v; want two and four", leaves, clusters)
	}
	p.Collective, p.Alltoall.Uniform = plan.Alltoall, 1<<20
	alg, err := Named(plan.Alltoall, "simple")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Schedule(alg, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := float64(8<<20)/2e6 + 0.01; math.Abs(s.Sim.Makespan-want) > 1e-6 || s.Bound.Seconds > want {
		t.Errorf("simulated %v s, bound %v; want %v s and a bound that is not above it", s.Sim.Makespan, s.Bound, want)
	}
}

// TestClusters: labels part a leaf only where the latency says that they can be right, and
// a leaf without labels stays whole.
func TestClusters(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sites   [4]string
		latency time.Duration // between hosts 0 1 and 2 3; else 50 µs
		want    int
	}{
		{"one site", [4]string{"X", "X", "X", "X"}, 20 * time.Millisecond, 1},
		{"two sites", [4]string{"X", "X", "Y", "Y"}, 20 * time.Millisecond, 2},
		{"two labels, one LAN", [4]string{"X", "X", "Y", "Y"}, 100 * time.Microsecond, 1},
		{"no labels", [4]string{}, 20 * time.Millisecond, 1},
		{"a wrong label", [4]string{"X", "Y", "Y", "Y"}, 20 * time.Millisecond, 1},
	} {
		hosts := make([]netmap.Host, 4)
		est := make([]netmap.Estimate, 16)
		for i := range 4 {
			hosts[i] = netmap.Host{Name: string(rune('a' + i)), Site: tt.sites[i]}
			for j := range 4 {
				e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Bandwidth: 1e6}
				if i/2 != j/2 {
					e.Latency = tt.latency
				}
				est[i*4+j] = e
			}
		}
		p := &Problem{Snapshot: netmap.NewSnapshot(0, hosts, est), Tree: &pools.Tree{Root: &pools.Pool{Hosts: []int{0, 1, 2, 3}}, Hosts: hosts}}
		if got := p.Clusters(); len(got) != tt.want {
			t.Errorf("%s: %v, want %d clusters", tt.name, got, tt.want)
		}
	}
}

// TestClustersOfASlowLAN: the tree takes a LAN apart that is no faster than its site's link to a faster one, and one whose hosts have
// unlike ports. They are one cluster all the same, and a site is one in which a slower link is. Rates are of ports, and of links.
func TestClustersOfASlowLAN(t *testing.T) {
	far := 20 * time.Millisecond
	for _, tt := range []struct {
		name   string
		ports  string // a letter a host: its site, and its port in Mbit/s
		rate   map[string]float64
		lag    time.Duration // between hosts of two sites
		leaves int
		want   int
	}{
		{"a link like the LAN", "A100 A100 A100 B50 B50 B50", map[string]float64{"AB": 200}, far, 4, 2},
		{"the same, and slow links to a third site", "A100 A100 B50 B50 B50 C80 C80", map[string]float64{"AB": 200, "AC": 5, "BC": 2}, far, 5, 3},
		{"unlike ports", "A1000 A1000 A100 A100 A100 B100 B100", map[string]float64{"AB": 10}, far, 5, 2},
		{"a head's link is faster than the LAN", "A1000 A100 A100 B1000 B100", map[string]float64{"AB": 500}, far, 4, 2},
		{"nothing to mend", "A100 A100 B100 B100", map[string]float64{"AB": 10}, far, 2, 2},
		{"near each other by fast links, but not each to each", "A100 A100 B100 B100 C100 C100", map[string]float64{"AB": 100, "BC": 100, "AC": 5}, 200 * time.Microsecond, 1, 3},
		{"near each other, and links of their own to a third site", "A100 A100 B100 B100 C100 C100", map[string]float64{"AB": 100, "AC": 5, "BC": 8}, 200 * time.Microsecond, 2, 3},
		{"two labels of one LAN", "A100 A100 B100 B200 C100 C100", map[string]float64{"AB": 200, "AC": 5, "BC": 5}, 200 * time.Microsecond, 2, 2},
		{"two sites near each other, of one label", "A100 A100 X100 X100", map[string]float64{"AX": 40}, 200 * time.Microsecond, 2, 2},
	} {
		var hosts []netmap.Host
		var ports []float64
		for i, f := range strings.Fields(tt.ports) {
			rate, err := strconv.ParseFloat(f[1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			hosts, ports = append(hosts, netmap.Host{Name: fmt.Sprintf("h%02d", i), Site: f[:1]}), append(ports, rate)
		}
		n := len(hosts)
		est := make([]netmap.Estimate, n*n)
		for i := range n {
			for j := range n {
				e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond}
				rate := min(ports[i], ports[j])
				if a, b := hosts[i].Site, hosts[j].Site; a != b {
					rate, e.Latency = min(rate, tt.rate[min(a, b)+max(a, b)]), tt.lag
				}
				e.Bandwidth = netmap.BytesPerSec(rate) * netmap.Mbps
				est[i*n+j] = e
			}
		}
		for i := range hosts {
			if hosts[i].Site == "X" {
				hosts[i].Site = "A" // the label is wrong
			}
		}
		snap := netmap.NewSnapshot(0, hosts, est)
		tree, err := pools.Build(snap, pools.Config{})
		if err != nil {
			t.Fatal(err)
		}
		p := &Problem{Snapshot: snap, Tree: tree}
		if leaves, got := tree.Leaves(), p.Clusters(); len(leaves) != tt.leaves || len(got) != tt.want {
			t.Errorf("%s: %d leaves, clusters %v; want %d and %d", tt.name, len(leaves), got, tt.leaves, tt.want)
		}
	}
}
