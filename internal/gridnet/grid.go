package gridnet

import (
	"errors"
	"fmt"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// FromGrid returns the configuration that emulates g; the caller adds seed and clock. Hosts have
// the names of [gridfile.Grid.Hosts], in its order. The rates of the file become
// rates of IP bytes: one QUIC connection gets about 95.5 % of them as goodput.
//
// It returns an error for the matrix form, which says what each pair of hosts gets and not
// which of them share a pipe, and for a grid that does not pass its own Check.
func FromGrid(g *gridfile.Grid) (Config, error) {
	if g.Matrix() {
		return Config{}, errors.New("emulate grid: the matrix form does not say which hosts share a link; use the form with sites and wan")
	}
	if err := g.Check(); err != nil {
		return Config{}, fmt.Errorf("emulate grid: %w", err)
	}
	var cfg Config
	for i, s := range g.Sites {
		site := Site{
			Name:          s.Name,
			Rate:          Rate(s.LAN.Bandwidth),
			Latency:       s.LAN.Latency,
			IngressQueue:  s.LAN.Queue,
			ReceiveJitter: s.LAN.Jitter,
		}
		for k := range s.Hosts {
			site.Hosts = append(site.Hosts, g.HostName(i, k))
		}
		cfg.Sites = append(cfg.Sites, site)
	}
	for _, l := range g.WAN {
		link := Link{
			From:    g.Sites[l.From].Name,
			To:      g.Sites[l.To].Name,
			Rate:    Rate(l.Capacity),
			Latency: l.Latency,
			Jitter:  l.Jitter,
			Loss:    l.Loss,
			Queue:   l.Queue,
		}
		if ceiling, ok := l.FlowCeiling(); ok {
			link.FlowRate = Rate(ceiling)
		}
		if l.Burst > 0 {
			link.Rate, link.ShapeRate, link.ShapeBurst = Rate(l.Peak), Rate(l.Capacity), int(l.Burst)
		}
		cfg.Links = append(cfg.Links, link)
	}
	if err := cfg.check(); err != nil {
		return Config{}, fmt.Errorf("emulate grid: %w", err)
	}
	return cfg, nil
}
