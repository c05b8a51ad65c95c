package planner

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A cable between two switches that many pairs share is measured while others use it, and the map takes a LAN apart. Who has declared the
// switches knows better: they are used whole, in a site alone and in one of several.
func TestDeclaredSwitchesAreOneCluster(t *testing.T) {
	topo, err := plan.NewTopology([]string{"left", "right"}, [][2]int{{0, 1}}, []string{"a0", "a1", "a2", "a3", "a4", "a5"}, []int{0, 0, 0, 1, 1, 1}, 10*netmap.Mbps)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		hosts    []string
		far      time.Duration // between the switches
		topology bool
		lans     int
		clusters int
	}{
		{"a site alone", []string{"a0", "a1", "a2", "a3", "a4", "a5"}, 100 * time.Microsecond, true, 0, 1},
		{"one of two sites", []string{"a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1"}, 100 * time.Microsecond, false, 1, 2},
		{"what is declared cannot be", []string{"a0", "a1", "a2", "a3", "a4", "a5"}, 20 * time.Millisecond, false, 2, 2},
	} {
		n := len(tt.hosts)
		hosts, est := make([]netmap.Host, n), make([]netmap.Estimate, n*n)
		for i, name := range tt.hosts {
			hosts[i] = netmap.Host{Name: name, Site: name[:1]}
			for j, other := range tt.hosts {
				e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Bandwidth: 10 * netmap.Mbps}
				switch {
				case name[0] != other[0]:
					e.Latency, e.Bandwidth = 20*time.Millisecond, netmap.Mbps
				case name[0] == 'a' && (i < 3) != (j < 3):
					e.Latency, e.Bandwidth = tt.far, 2*netmap.Mbps
				}
				est[i*n+j] = e
			}
		}
		p := &Problem{Sizes: make([]int64, n), Snapshot: netmap.NewSnapshot(1, hosts, est)}
		if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
			t.Fatal(err)
		}
		if before := len(p.Clusters()); before <= tt.clusters && tt.far < time.Millisecond {
			t.Errorf("%s: %d clusters without a declaration: this test shows nothing", tt.name, before)
		}
		if err := p.Declare(topo); err != nil {
			t.Fatal(err)
		}
		if (p.Topology != nil) != tt.topology || len(p.LANs) != tt.lans || len(p.Clusters()) != tt.clusters {
			t.Errorf("%s: topology %v, %d LANs, clusters %v", tt.name, p.Topology != nil, len(p.LANs), p.Clusters())
		}
	}
}
