package probe

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// A changing grid is two or three sites of a few hosts whose links fall to a quarter and rise again.
type changing struct {
	hosts     int
	out, back gridnet.Rate // of the links between a and b that change
	third     bool         // whether there is a third site, which takes turns of its own
}

func (c changing) config() gridnet.Config {
	cfg := gridnet.Config{}
	sites := []string{"a", "b"}
	if c.third {
		sites = append(sites, "c")
	}
	for _, s := range sites {
		cfg.Sites = append(cfg.Sites, gridnet.Site{Name: s, Hosts: gridtest.Hosts(s, c.hosts), Rate: 100 * gridnet.Mbps, Latency: 60 * time.Microsecond})
		for _, d := range sites {
			rate := 3 * gridnet.Mbps
			switch {
			case s == d:
				continue
			case s == "a" && d == "b":
				rate = c.out
			case s == "b" && d == "a":
				rate = c.back
			}
			cfg.Links = append(cfg.Links, gridnet.Link{From: s, To: d, Rate: rate, Latency: 10 * time.Millisecond})
		}
	}
	return cfg
}

// off returns the pairs from one site to another that are off the truth by more than 15 %.
func (w *world) off(from, to string, rate gridnet.Rate) (off []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.peers {
		for _, b := range w.peers {
			if a.Site != from || b.Site != to {
				continue
			}
			e := w.est[[2]string{a.Name, b.Name}]
			if d := apart(float64(e.Bandwidth), float64(truth(rate))); d > 0.15 {
				off = append(off, fmt.Sprintf("%s→%s: %.2f after %.1f s", a.Name, b.Name, e.Bandwidth.Mbps(), e.Measured.Sub(w.start).Seconds()))
			}
		}
	}
	return off
}

// Both directions of a link fall to a quarter, and rise again later: each time every pair of hosts is
// right within the half minute that the map may take, by its own trains, with nobody's guess.
func TestChangeIsLearned(t *testing.T) {
	if gridtest.Race {
		t.Skip("worlds of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	const within = 35 * time.Second // a LogP session, which comes after 2 min, may hold the slow link for 14 s of it; 29 s are the most without
	const seeds = uint64(8)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 20))
		rate := func() gridnet.Rate { return gridnet.Rate(2.4*math.Pow(8, rng.Float64())) * gridnet.Mbps }
		c := changing{hosts: 2 + int(seed%2), out: rate(), back: rate(), third: seed%4 < 2}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			cfg := c.config()
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				ms := w.joinAll(n, cfg, func(cfg *Config) {
					cfg.Rand = rand.New(rand.NewPCG(rng.Uint64(), 1))
				})
				w.run(ms, true, func(context.Context) {
					time.Sleep(15*time.Second + time.Duration(rng.Int64N(int64(time.Minute))))
					for _, factor := range []gridnet.Rate{0.25, 1} {
						links := []gridnet.Link{{From: "a", To: "b", Rate: factor * c.out}, {From: "b", To: "a", Rate: factor * c.back}}
						for _, now := range links {
							if err := n.SetLink(now.From, now.To, func(l *gridnet.Link) { l.Rate = now.Rate }); err != nil {
								t.Fatal(err)
							}
						}
						at := time.Now()
						for _, l := range links {
							var first time.Duration
							all := len(w.off(l.From, l.To, l.Rate))
							for off := w.off(l.From, l.To, l.Rate); len(off) > 0; off = w.off(l.From, l.To, l.Rate) {
								if first == 0 && len(off) < all {
									first = time.Since(at)
								}
								if time.Since(at) > 3*within {
									t.Errorf("seed %d, %+v: %s→%s at %.3f Mbit/s since %.1f s: %v", seed, c, l.From, l.To, float64(l.Rate/gridnet.Mbps), at.Sub(w.start).Seconds(), off)
									break
								}
								time.Sleep(100 * time.Millisecond)
							}
							t.Logf("%s→%s at %.3f Mbit/s: first %.1f s, all %.1f s", l.From, l.To, float64(l.Rate/gridnet.Mbps), first.Seconds(), time.Since(at).Seconds())
							if d := time.Since(at); d > within {
								t.Errorf("seed %d, %+v: all pairs right after %v, want at most %v", seed, c, d, within)
							}
						}
						time.Sleep(time.Duration(rng.Int64N(int64(time.Minute))))
					}
				})
			})
		})
	}
}
