package wan

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestSlowRestFirst: a site has all that it sends to two others relayed by one host, whose link to one of them is slow. What goes there leaves first, however the
// sites are numbered, and the forecast is that of the slow link alone.
func TestSlowRestFirst(t *testing.T) {
	for _, slow := range []int{2, 3} {
		n := &plan.Network{Pool: []int{0, 1, 2, 3}, Hosts: []string{"origin", "relay", "c", "d"}, Pipe: make([]netmap.BytesPerSec, 16),
			Ceiling: make([]netmap.BytesPerSec, 16), Latency: make([]time.Duration, 16)}
		link := func(a, b int, rate netmap.BytesPerSec) {
			n.Pipe[4*a+b], n.Ceiling[4*a+b], n.Latency[4*a+b] = rate, rate, 10*time.Millisecond
		}
		for range 4 {
			n.Egress, n.Ingress = append(n.Egress, 1000*netmap.Mbps), append(n.Ingress, 1000*netmap.Mbps)
		}
		fast := 5 - slow
		link(0, 1, 20*netmap.Mbps)
		link(1, slow, 10*netmap.Mbps)
		link(1, fast, 100*netmap.Mbps)
		sizes := make([][]int64, 4)
		for i := range sizes {
			sizes[i] = make([]int64, 4)
		}
		sizes[0][2], sizes[0][3] = 1<<20, 1<<20
		p, _ := made(t, 0, n, plan.AlltoallSizes{Matrix: sizes}, nil, Options{})
		others := false
		for _, tr := range p.Transfers {
			if tr.Src != 0 {
				continue
			}
			if tr.Dst != 1 {
				t.Fatalf("%d→%d, want the relay", tr.Src, tr.Dst)
			}
			if tr.Blocks[0].Dest != slow {
				others = true
			} else if others {
				t.Fatalf("%v leaves after what goes over the fast link", tr.Blocks[0])
			}
		}
		if took, alone := simulated(t, 0, p, n, 0), (10 * netmap.Mbps).Time(1<<20).Seconds(); took > 1.2*alone {
			t.Errorf("it takes %.3f s, the slow link alone %.3f", took, alone)
		}
	}
}
