package exchange

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// pathsOver is the path over a link for engines that know it.
func pathsOver(l gridnet.Link) edit {
	return func(c *Config, _ *lane.Config) {
		c.Lanes = nil
		c.Path = func(string) Path {
			return Path{RTT: 2 * l.Latency, Rate: netmap.BytesPerSec(l.Rate), Flows: 1}
		}
	}
}

// TestPairCut: two hosts that reach others lose the way to each other for good in the middle of an exchange, or before it. What
// goes between them, tokens and confirmations included, goes by way of another.
func TestPairCut(t *testing.T) {
	link := gridnet.Link{Rate: 4 * gridnet.Mbps, Latency: 15 * time.Millisecond}
	for _, tc := range []struct {
		name string
		p    func(rng *rand.Rand) *plan.Plan
		at   time.Duration
	}{
		{"ring", func(*rand.Rand) *plan.Plan { return ringPlan(4) }, 500 * time.Millisecond},
		{"alltoall", func(rng *rand.Rand) *plan.Plan {
			p := alltoallPlan(rng, 4, 0.5)
			synchronise(rng, p, 10)
			return p
		}, 500 * time.Millisecond},
		{"ring, before", func(*rand.Rand) *plan.Plan { return ringPlan(4) }, 0},
	} {
		if gridtest.Race && tc.name != "alltoall" {
			continue // one is enough, at ten times the CPU time
		}
		t.Run(tc.name, func(t *testing.T) {
			overGridnet(t, star(4, link), 0, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
				rng := rand.New(rand.NewPCG(7, 96))
				p := tc.p(rng)
				p.MessageBytes = 300 << 10
				var detoured int64
				took := func() (most time.Duration) {
					detoured = 0
					for _, s := range g.must(t, newJob(t, rng, p, 0)) {
						most, detoured = max(most, s.Elapsed), detoured+s.Detoured
					}
					return most
				}
				alone := took()
				if detoured > 0 {
					t.Errorf("%d bytes went by way of others, and nothing was broken", detoured)
				}
				cut := time.AfterFunc(tc.at, func() {
					for _, pair := range [][2]string{{"s0", "s1"}, {"s2", "s1"}} {
						if err := n.Cut(pair[0], pair[1]); err != nil {
							t.Error(err)
						}
					}
				})
				defer cut.Stop()
				broken := took()
				if detoured == 0 {
					t.Error("nothing went by way of others")
				}
				// Others between the same hosts know of it.
				again := took()
				t.Logf("undisturbed %v, cut %v, another one %v", alone, broken, again)
				if most := 2*alone + silence + 2*time.Second; broken > most || again > most-silence {
					t.Errorf("took %v and then %v, %v undisturbed", broken, again, alone)
				}
			}, pathsOver(link))
		})
	}
}

// TestDetourByStranger: the third host has no part of the exchange.
func TestDetourByStranger(t *testing.T) {
	link := gridnet.Link{Rate: 4 * gridnet.Mbps, Latency: 15 * time.Millisecond}
	overGridnet(t, star(3, link), 0, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
		if err := n.Cut("s0", "s1"); err != nil {
			t.Fatal(err)
		}
		p := ringPlan(2)
		p.MessageBytes = 100 << 10
		for h, s := range g.must(t, newJob(t, rand.New(rand.NewPCG(8, 96)), p, 0)) {
			if s.Detoured < p.MessageBytes {
				t.Errorf("host %d: %d bytes went by way of the third one in %v", h, s.Detoured, s.Elapsed)
			}
		}
	}, pathsOver(link), func(c *Config, _ *lane.Config) {
		c.Vias = func() []string { return []string{"host0", "host1", "host2"} }
	})
}
