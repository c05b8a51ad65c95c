package exchange

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/packed"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// threeSites is the grid of Gupta & Vadhiyar (HPDC 2007) with fewer hosts.
const threeSites = `
sites:
  - {name: UT,  hosts: 3, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: UK,  hosts: 2, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: NTH, hosts: 3, lan: {bandwidth: 100Mbps, latency: 60us}}
wan:
  - {from: UT,  to: UK,  bandwidth: 1.44Mbps, latency: 50ms}
  - {from: UT,  to: NTH, bandwidth: 1.25Mbps, latency: 50ms}
  - {from: UK,  to: UT,  bandwidth: 1.28Mbps, latency: 50ms}
  - {from: UK,  to: NTH, bandwidth: 4.75Mbps, latency: 76ms}
  - {from: NTH, to: UT,  bandwidth: 1.16Mbps, latency: 50ms}
  - {from: NTH, to: UK,  bandwidth: 4.75Mbps, latency: 76ms}
`

// A world is a grid whose links are changed while an allgather runs.
type world struct {
	file *gridfile.Grid
	snap *netmap.Snapshot
	net  *plan.Network
	tree *pools.Tree
	one  bool // the agents take all hosts to be of one site
}

func newWorld(t testing.TB, text string) *world {
	t.Helper()
	w := &world{}
	var err error
	if w.file, err = gridfile.Parse(t.Name(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if w.snap, err = w.file.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if w.tree, err = pools.Build(w.snap, pools.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.net, err = plan.NetworkOf(w.snap, w.tree.Leaves(), 1); err != nil {
		t.Fatal(err)
	}
	return w
}

// allgather returns the plan for blocks of size bytes.
func (w *world) allgather(t testing.TB, size int64) *plan.Plan {
	t.Helper()
	sizes := make([]int64, w.snap.N())
	for h := range sizes {
		sizes[h] = size
	}
	p, err := packed.Allgather(w.net, w.tree.Leaves(), sizes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs p while events change the network, and returns what the hosts tell.
func (w *world) run(t *testing.T, p *plan.Plan, seed uint64, events ...event) (stats []Stats, took time.Duration) {
	t.Helper()
	cfg, err := gridnet.FromGrid(w.file)
	if err != nil {
		t.Fatal(err)
	}
	index, site, mates := make(map[string]int), make(map[string]string), make(map[string]int)
	for h := range w.snap.N() {
		index[w.snap.Host(h).Name], site[w.snap.Host(h).Name] = h, w.snap.Host(h).Site
		mates[w.snap.Host(h).Site]++
		if w.one {
			site[w.snap.Host(h).Name] = "all"
		}
	}
	overGridnet(t, cfg, 0, func(t *testing.T, n *gridnet.Network, g *quicGrid) {
		for _, e := range events {
			timer := time.AfterFunc(e.at, func() {
				if err := e.do(n); err != nil {
					t.Error(err)
				}
			})
			defer timer.Stop()
		}
		stats = g.must(t, newJob(t, rand.New(rand.NewPCG(seed, 95)), p, 0))
	}, func(c *Config, _ *lane.Config) {
		self := c.Self
		c.Lanes = nil
		c.Site = func(h string) string { return site[h] }
		c.Path = func(h string) Path {
			e := w.snap.Estimate(index[self], index[h])
			if 2*e.Latency < 2*time.Millisecond {
				return Path{}
			}
			return Path{RTT: 2 * e.Latency, Rate: e.Bandwidth, Flows: mates[w.snap.Host(index[self]).Site]}
		}
		if os.Getenv("RELIEF_LOG") != "" {
			c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
	})
	for _, s := range stats {
		took = max(took, s.Elapsed)
	}
	return stats, took
}

// An event changes the network in the middle of an exchange.
type event struct {
	at time.Duration
	do func(*gridnet.Network) error
}

func falls(from, to string, at time.Duration, part gridnet.Rate) event {
	return event{at, func(n *gridnet.Network) error {
		return n.SetLink(from, to, func(l *gridnet.Link) { l.Rate /= part })
	}}
}

// rises undoes what falls did.
func rises(from, to string, at time.Duration, part gridnet.Rate) event {
	return event{at, func(n *gridnet.Network) error {
		return n.SetLink(from, to, func(l *gridnet.Link) { l.Rate *= part })
	}}
}

// TestRelief: a link into the site that binds falls to a quarter, at a quarter, half and two thirds of the exchange; it
// falls and recovers; it falls and the other one falls later. Others deliver what it cannot, and the exchange
// ends not much later than one would who divided what is left over both links at once.
func TestRelief(t *testing.T) {
	if testing.Short() || gridtest.Race {
		t.Skip("megabytes over several worlds: run without the race detector, which multiplies its CPU time by ten")
	}
	w := newWorld(t, threeSites)
	p := w.allgather(t, 400<<10)
	stats, alone := w.run(t, p, 1)
	if sum := totals(stats); sum.Replanned+int(sum.Detoured) > 0 {
		t.Errorf("nothing happened, and something was given away: %+v", sum)
	}
	at := func(part float64) time.Duration { return time.Duration(float64(alone) * part) }
	for _, tc := range []struct {
		name   string
		events []event
		rates  []rates // into UT
		most   float64 // of what a clairvoyant needs
	}{
		{"at a quarter", []event{falls("UK", "UT", at(.25), 4)}, []rates{{.25, 2.44}, {99, 1.48}}, 1.3},
		{"at half", []event{falls("UK", "UT", at(.5), 4)}, []rates{{.5, 2.44}, {99, 1.48}}, 1.3},
		{"at two thirds", []event{falls("UK", "UT", at(.65), 4)}, []rates{{.65, 2.44}, {99, 1.48}}, 1.4},
		{"and recovers", []event{falls("UK", "UT", at(.25), 4), rises("UK", "UT", at(.75), 4)}, []rates{{.25, 2.44}, {.75, 1.48}, {99, 2.44}}, 1.3},
		{"and the other one", []event{falls("UK", "UT", at(.25), 4), falls("NTH", "UT", at(.75), 4)}, []rates{{.25, 2.44}, {.75, 1.48}, {99, .61}}, 1.35},
	} {
		ideal := time.Duration(float64(alone) * clairvoyant(tc.rates))
		stats, took := w.run(t, p, 1, tc.events...)
		sum := totals(stats)
		if late := len(tc.events) == 1 && tc.rates[0].until > .5; late && sum.Given+sum.Detoured == 0 && took < ideal*8/5 {
			// Late falls are left alone now and then, 8 of some 200, and take up to 1.57: see Limits in docs/design/adaptation.md. Not twice in a row.
			t.Logf("falls %s: left alone, %.2f of the ideal %v; once more", tc.name, float64(took)/float64(ideal), ideal)
			stats, took = w.run(t, p, 2, tc.events...)
			sum = totals(stats)
		}
		t.Logf("falls %s: %v, %.2f of the ideal %v (undisturbed %v); in %d steps %d bytes were given away, %d taken, %d went by way of others, %d came twice",
			tc.name, took, float64(took)/float64(ideal), ideal, alone, sum.Replanned, sum.Given, sum.Helping, sum.Detoured, sum.twice)
		// After a late one the others may be through, and pass on what this one sends.
		if sum.Given+sum.Detoured == 0 {
			t.Errorf("falls %s: nothing was given away", tc.name)
		}
		if most := time.Duration(float64(ideal) * tc.most); took > most {
			t.Errorf("falls %s: took %v, want at most %.2f x %v", tc.name, took, tc.most, ideal)
		}
		if sum.twice > max(sum.Given/4, 128<<10) { // 89 kB seen once where 124 kB went by way of others in the last second
			t.Errorf("falls %s: %d bytes came twice", tc.name, sum.twice)
		}
	}
}

// TestFallInASite: links inside a site fall while data cross them. Nobody outside can help, and no host is asked for the way to itself,
// which ends the exchange.
func TestFallInASite(t *testing.T) {
	if gridtest.Race {
		t.Skip("11 hosts that send 400 KiB each: scripts/test runs it without the race detector")
	}
	w := newWorld(t, threeSites)
	w.one = true
	stats, took := w.run(t, w.allgather(t, 400<<10), 1, falls("UK", "UT", 2*time.Second, 4), falls("NTH", "UT", 2*time.Second, 4))
	if took < 10*time.Second {
		t.Errorf("took %v: nothing fell", took)
	}
	if sum := totals(stats); sum.Replanned+int(sum.Given) > 0 {
		t.Errorf("something was given away: %+v", sum)
	}
}

// rates is what comes into a site in Mbit/s until a time, in parts of the undisturbed exchange.
type rates struct{ until, rate float64 }

// clairvoyant returns when all has come that would have come by 1 at the first rate.
func clairvoyant(rs []rates) float64 {
	left, at := rs[0].rate, 0.
	for _, r := range rs {
		if n := (r.until - at) * r.rate; n < left {
			left, at = left-n, r.until
			continue
		}
		return at + left/r.rate
	}
	return at
}

// A total is of all hosts.
type total struct {
	Relief
	twice int64
}

func totals(stats []Stats) (sum total) {
	for _, s := range stats {
		sum.add(s.Relief)
		for _, p := range s.Peers {
			sum.twice += p.Duplicates
		}
	}
	return sum
}
