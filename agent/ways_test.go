package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestWays: few bytes go from leader to leader by the shortest ways, where these are shorter by a tenth at least.
func TestWays(t *testing.T) {
	const ms = time.Millisecond
	hosts := []netmap.Host{{Name: "a1", Site: "A"}, {Name: "a2", Site: "A"}, {Name: "b1", Site: "B"}, {Name: "c1", Site: "C"}, {Name: "d1", Site: "D"}}
	for name, tt := range map[string]struct {
		latency [4][4]time.Duration // between sites
		via     [][]int
		bound   time.Duration
	}{
		"straight": {[4][4]time.Duration{{0, 10 * ms, 20 * ms, 30 * ms}, {10 * ms, 0, 10 * ms, 20 * ms}, {20 * ms, 10 * ms, 0, 10 * ms}, {30 * ms, 20 * ms, 10 * ms, 0}}, nil, 30 * ms},
		"a chain": {
			[4][4]time.Duration{{0, 10 * ms, 60 * ms, 90 * ms}, {10 * ms, 0, 10 * ms, 60 * ms}, {60 * ms, 10 * ms, 0, 10 * ms}, {90 * ms, 60 * ms, 10 * ms, 0}},
			[][]int{{0, 0, 1, 2}, {1, 1, 1, 2}, {1, 2, 2, 2}, {1, 2, 3, 3}}, 31 * ms,
		},
		"one direction": {
			[4][4]time.Duration{{0, 10 * ms, 60 * ms, 10 * ms}, {10 * ms, 0, 10 * ms, 10 * ms}, {10 * ms, 10 * ms, 0, 10 * ms}, {10 * ms, 10 * ms, 10 * ms, 0}},
			[][]int{{0, 0, 1, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, 20*ms + passTime,
		},
	} {
		site := []int{0, 0, 1, 2, 3}
		var est []netmap.Estimate
		for i := range hosts {
			for j := range hosts {
				est = append(est, netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: tt.latency[site[i]][site[j]] + 1, Bandwidth: 1e6})
			}
		}
		snap := netmap.NewSnapshot(1, hosts, est)
		tree := (&Agent{}).treeOver(snap)
		if fmt.Sprint(tree.Via) != fmt.Sprint(tt.via) || (tree.Bound-tt.bound).Abs() > 10 {
			t.Errorf("%s: by way of %v, at least %v; want %v and %v", name, tree.Via, tree.Bound, tt.via, tt.bound)
		}
	}
}
