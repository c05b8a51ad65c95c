package exchange

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// TestLanded: a host has its result, whole, as soon as it is there and what the others get is on its way; that they have it the run hears a way back
// later. A way that is cut in that moment, for as long as streams last, costs the others time and nothing else.
func TestLanded(t *testing.T) {
	const (
		hosts   = 3
		latency = 50 * time.Millisecond
		outage  = 2 * time.Second
	)
	for _, cut := range []bool{false, true} {
		w := way{rate: 8 * gridnet.Mbps, latency: latency, window: true}
		overGridnet(t, star(hosts, w.link()), 1, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
			p := newPlanner(plan.Allgather, hosts)
			for o := range hosts {
				for d := range hosts {
					if o != d {
						p.add(o, d, plan.Block{Origin: o, Dest: plan.All})
					}
				}
			}
			p.p.Sizes = []int64{100_000, 200_000, 300_000}
			j := newJob(t, rand.New(rand.NewPCG(1, 103)), p.p, 0)
			begun := time.Now()
			var landed, ended [hosts]time.Duration
			var wg sync.WaitGroup
			for h := range hosts {
				j.data[h].Landed = func(st Stats) {
					landed[h] = time.Since(begun)
					if err := j.check(h); err != nil {
						t.Errorf("cut %t: landed without its result: %v", cut, err)
					}
					for name, s := range st.Peers {
						if want := p.p.Sizes[h]; s.Sent != want {
							t.Errorf("cut %t: host %d has landed, and sent %s %d bytes of %d", cut, h, name, s.Sent, want)
						}
					}
					if cut && h == 2 {
						if err := n.Cut("s0", "s2"); err != nil {
							t.Error(err)
						}
						time.AfterFunc(outage, func() { n.Heal("s0", "s2") })
					}
				}
				wg.Go(func() {
					if _, err := g.engines[p.p.Hosts[h]].Run(t.Context(), j.parts[h], j.data[h]); err != nil {
						t.Errorf("cut %t: host %d: %v", cut, h, err)
					}
					ended[h] = time.Since(begun)
				})
			}
			wg.Wait()
			for h := range hosts {
				if err := j.check(h); err != nil {
					t.Errorf("cut %t: %v", cut, err)
				}
			}
			t.Logf("cut %t: landed after %v, ended after %v", cut, landed, ended)
			rest := latency
			if cut {
				rest = 5 * latency
			}
			if last := landed[2]; last == 0 || ended[2]-last < rest { // its bytes are the most
				t.Errorf("cut %t: host 2 landed after %v, and ended after %v; want %v between them at least", cut, last, ended[2], rest)
			}
		}, w.edit)
	}
}
