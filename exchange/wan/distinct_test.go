package wan

import (
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestBridgesAreDistinct: over a link of which nobody knows what several flows get, each bridge is another pair of hosts, and those of a pool get alike many.
func TestBridgesAreDistinct(t *testing.T) {
	for a := 1; a <= 12; a++ {
		for b := 1; b <= 12; b++ {
			s := &scheduler{
				net:  &plan.Network{Egress: make([]netmap.BytesPerSec, a+b), Ingress: make([]netmap.BytesPerSec, a+b)},
				opts: Options{Blind: []bool{false, true, true, false}}, pools: make([][]int, 2), links: make([]link, 4),
			}
			for h := range a + b {
				k := min(h/a, 1)
				s.pools[k] = append(s.pools[k], h)
			}
			seen, of := make(map[[2]int]bool), make([]int, a+b)
			bridges := s.bridgesOf(nil)[1]
			for _, x := range bridges {
				seen[[2]int{x.near, x.far}] = true
				of[x.near]++
				of[x.far]++
			}
			if len(seen) != len(bridges) {
				t.Errorf("%d and %d hosts: %d bridges over %d pairs", a, b, len(bridges), len(seen))
			}
			for h, n := range of {
				if size := len(s.pools[min(h/a, 1)]); n < len(bridges)/size || n > (len(bridges)+size-1)/size {
					t.Errorf("%d and %d hosts: host %d is in %d of %d bridges", a, b, h, n, len(bridges))
				}
			}
		}
	}
}
