package probe

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// An opens counts streams by whom they are opened to.
type opens struct {
	Endpoint
	mu sync.Mutex // guards n
	n  map[string]int
}

func (o *opens) Open(ctx context.Context, name string, n int, k lane.StreamKind) (*lane.Stream, error) {
	o.mu.Lock()
	o.n[name]++
	o.mu.Unlock()
	return o.Endpoint.Open(ctx, name, n, k)
}

// Hosts that cannot be reached do not keep the others from being pinged, wherever they are, and are tried on and on.
func TestPingsPassUnreachableHosts(t *testing.T) {
	for name, dead := range map[string][]string{
		"a site":           {"c0", "c1", "c2", "c3"},
		"a site and hosts": {"a3", "b2", "b3", "c0", "c1", "c2", "c3"},
		"a large site":     {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small()
			for i := range cfg.Sites {
				cfg.Sites[i].Hosts = gridtest.Hosts(cfg.Sites[i].Name, 4)
			}
			cfg.Sites[2].Hosts = gridtest.Hosts("c", 12)
			gone := make(map[string]bool)
			for _, h := range dead {
				gone[h] = true
			}
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				count := &opens{n: make(map[string]int)}
				var ms []*member
				for _, site := range cfg.Sites {
					for _, h := range site.Hosts {
						switch {
						case gone[h]:
							conn := gridtest.Listen(t, n, h)
							w.addrs[h] = conn.LocalAddr()
							w.peers = append(w.peers, Peer{h, site.Name})
							if err := conn.Close(); err != nil {
								t.Fatal(err)
							}
						case site.Name != "c":
							ms = append(ms, w.join(gridtest.Listen(t, n, h), Peer{h, site.Name}, func(c *Config) {
								if h == "a0" {
									count.Endpoint, c.Endpoint = c.Endpoint, count
								}
							}))
						}
					}
				}
				late := make(map[string]time.Duration) // for how long a host waited that was due
				w.run(ms, false, func(ctx context.Context) {
					ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
					defer cancel()
					var pings sync.WaitGroup
					p := ms[0].prober
					for range pingers {
						pings.Go(func() { p.pinger(ctx) }) // ends with ctx
					}
					for sleep(ctx, 100*time.Millisecond) == nil {
						if time.Since(w.start) < 30*time.Second { // none of them has failed yet
							continue
						}
						p.mu.Lock()
						for name, s := range p.peers {
							if !s.ping.running {
								late[name] = max(late[name], time.Since(s.ping.notBefore))
							}
						}
						p.mu.Unlock()
					}
					pings.Wait()
				})
				for _, m := range ms[1:] {
					if name := m.peer.Name; count.n[name] == 0 || late[name] > 2*idlePause {
						t.Errorf("%s was pinged %d times in 5 min, and once %v late", name, count.n[name], late[name])
					}
				}
				// One at a time, which takes up to 12 s each.
				for _, h := range dead {
					if got := count.n[h]; got < 20/len(dead) {
						t.Errorf("%s, which cannot be reached, was tried %d times in 5 min", h, got)
					}
				}
				t.Log(count.n)
			})
		})
	}
}
