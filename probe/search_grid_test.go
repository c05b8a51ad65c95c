package probe

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A schedule over a link that holds each flow depends on what several lanes get by the factor that they gain. Two minutes after the
// start one pair of the two sites has measured it, on a slow link as well, and all others take it over.
func TestYoungLinkIsSearched(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		link  gridnet.Link
		hosts int
		knee  int
		takes time.Duration // of the link, for all long probes
	}{
		{"10 Mbit/s, a flow 1.25", gridnet.Link{Rate: 10 * gridnet.Mbps, FlowRate: 1.25 * gridnet.Mbps, Latency: 50 * ms}, 3, 8, 10 * time.Second},
		{"8 Mbit/s, a flow 1, 100 ms", gridnet.Link{Rate: 8 * gridnet.Mbps, FlowRate: gridnet.Mbps, Latency: 100 * ms}, 2, 8, 12 * time.Second},
		// The probe of one flow leaves half a second of packets before its ceiling.
		{"1.66 Mbit/s, a flow 1, 1.5 ms", gridnet.Link{Rate: 1.66 * gridnet.Mbps, FlowRate: gridnet.Mbps, Latency: 3 * ms / 2}, 3, 2, 20 * time.Second},
		{"1.16 Mbit/s, one flow fills it", gridnet.Link{Rate: 1.16 * gridnet.Mbps, Latency: 50 * ms}, 3, 1, 18 * time.Second}, // 16 s seen in 9 runs, of which the second search took 2.5
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := sitesOver(tt.link, tt.hosts)
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := &bulkWorld{world: newWorld(t), n: n}
				members := w.joinSites(cfg)
				w.run(members, true, func(context.Context) {
					time.Sleep(2 * time.Minute)
					s := netmap.Predict(w.snapshot())
					for i := range s.N() {
						for j := range s.N() {
							if s.Host(i).Site == s.Host(j).Site {
								continue
							}
							e := s.Estimate(i, j)
							if off := float64(e.Capacity)/linkTruth(tt.link.Rate) - 1; !e.Has(netmap.FieldCapacity) || math.Abs(off) > 0.15 {
								t.Errorf("%s→%s: capacity %.2f Mbit/s, %+.1f %%", s.Host(i).Name, s.Host(j).Name, e.Capacity.Mbps(), 100*off)
							}
							if e.Lanes < (tt.knee+1)/2 || e.Lanes > 2*tt.knee {
								t.Errorf("%s→%s: %d lanes reach it, want about %d", s.Host(i).Name, s.Host(j).Name, e.Lanes, tt.knee)
							}
						}
					}
					for _, m := range members {
						for _, l := range m.prober.Cost().Links {
							t.Logf("%s→%s has carried %d kB of probes", l.From, l.To, l.LastHour/1000)
							if float64(l.LastHour) > tt.takes.Seconds()*float64(tt.link.Rate) {
								t.Errorf("%s→%s has carried %d bytes of probes, want at most what it carries in %v", l.From, l.To, l.LastHour, tt.takes)
							}
						}
					}
				})
			})
		})
	}
}

// sitesOver returns two sites of so many hosts, on LANs of 100 Mbit/s, with link between them both ways.
func sitesOver(link gridnet.Link, hosts int) gridnet.Config {
	cfg := gridtest.Pair(link)
	for i, s := range cfg.Sites {
		cfg.Sites[i].Hosts = gridtest.Hosts(s.Name, hosts)
		cfg.Sites[i].Rate, cfg.Sites[i].Latency = 100*gridnet.Mbps, time.Millisecond/10
	}
	return cfg
}

// TestYoungGridIsSearched: the capacities of all six links between three sites are known soon after the start, whoever's turn it is just then. What
// keeps them is the chatter of the first half minute on the slow links, and that the two directions of a link take turns.
func TestYoungGridIsSearched(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	const starts = 2
	var sum time.Duration
	for k := range starts {
		cfg := gridtest.ThreeSites()
		for i := range cfg.Sites {
			cfg.Sites[i].Hosts = cfg.Sites[i].Hosts[:4]
		}
		for i := range cfg.Links {
			cfg.Links[i].FlowRate, cfg.Links[i].Rate = cfg.Links[i].Rate, 8*cfg.Links[i].Rate
		}
		gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
			time.Sleep(time.Duration(k) * 2 * wayTurn / starts)
			w := &bulkWorld{world: newWorld(t), n: n}
			members := w.joinSites(cfg)
			w.run(members, true, func(context.Context) {
				begun := time.Now()
				for len(w.pairs(netmap.FieldLanes)) < len(cfg.Links) && time.Since(begun) < 3*time.Minute {
					time.Sleep(time.Second)
				}
				took := time.Since(begun)
				t.Logf("start %d: all %d directions are known after %v", k, len(cfg.Links), took)
				if sum += took; took > 110*time.Second {
					t.Errorf("start %d: of %d directions %d are known after %v", k, len(cfg.Links), len(w.pairs(netmap.FieldLanes)), took)
				}
			})
		})
	}
	if mean := sum / starts; mean > 75*time.Second {
		t.Errorf("all are known after %v in the mean", mean)
	}
}

// snapshot is the map of all members.
func (w *world) snapshot() *netmap.Snapshot {
	hosts := make([]netmap.Host, len(w.peers))
	for i, p := range w.peers {
		hosts[i] = netmap.Host{Name: p.Name, Site: p.Site}
	}
	est := make([]netmap.Estimate, len(hosts)*len(hosts))
	for i, from := range hosts {
		for j, to := range hosts {
			est[i*len(hosts)+j], _ = w.known(from.Name, to.Name)
		}
	}
	return netmap.NewSnapshot(1, hosts, est)
}
