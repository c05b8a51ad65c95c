package gridnet

import (
	"errors"
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// FromTopology returns the configuration that emulates a switch tree: a site with the name
// of each switch, its hosts in rank order, and a trunk in each direction for every cable between
// switches. Every port and trunk has the rate of t, in IP bytes, and stores packets
// whole. latency is the one-way delay between any two hosts, beside what the ports and trunks
// take to send a packet: cables between switches have none.
//
// It returns an error for a tree without bandwidth and for one of more than 255 switches.
func FromTopology(t *plan.Topology, latency time.Duration) (Config, error) {
	rate, ok := t.Bandwidth()
	if !ok {
		return Config{}, errors.New("emulate switch tree: it has no bandwidth_mbps")
	}
	var cfg Config
	for s, name := range t.Switches() {
		cfg.Sites = append(cfg.Sites, Site{Name: name, Rate: Rate(rate), Latency: latency})
		for _, next := range t.Adjacent(s) {
			cfg.Trunks = append(cfg.Trunks, Link{From: name, To: t.Switches()[next], Rate: Rate(rate)})
		}
	}
	for h, name := range t.Hosts() {
		s := &cfg.Sites[t.Home(h)]
		s.Hosts = append(s.Hosts, name)
	}
	if err := cfg.check(); err != nil {
		return Config{}, fmt.Errorf("emulate switch tree: %w", err)
	}
	return cfg, nil
}
