package random

import (
	"fmt"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// UserShare is the share of a link's IP bytes that one QUIC flow delivers to its user: 1,248 of 1,308, see probe/train.go.
const UserShare = 1248.0 / 1308

// Flow returns what one flow gets of link i, in user bytes a second, by what the grid declares: the least of the link, what it lets a
// flow have, and the ports of both hosts. It is exact where nothing else decides: no loss, no jitter, no strangers, a queue of a
// bandwidth-delay product at least, and a way back that carries the acknowledgements. Elsewhere it is the most that it can be.
func (g *Grid) Flow(i int) (rate netmap.BytesPerSec, exact bool) {
	k, back := g.File.WAN[i], g.File.WAN[g.back(i)]
	rate = min(k.Bandwidth, g.port(k.From), g.port(k.To))
	// An acknowledgement of about 80 bytes for two packets of 1,308; half of the way back is left to others.
	acks := float64(rate) / (2 * 1308) * 80
	long := bdp(rate, g.RoundTrip(i))
	exact = k.Loss == 0 && k.Jitter == 0 && g.Cross[i] == 0 && (k.Queue == 0 || float64(k.Queue) >= max(64, long)) &&
		back.Loss < 0.005 && acks < 0.5*float64(back.Bandwidth)
	return rate * UserShare, exact
}

// Carries returns what all flows together get of link i, in user bytes a second, if they are of one pair of hosts and
// nobody else is there.
func (g *Grid) Carries(i int) netmap.BytesPerSec {
	k := g.File.WAN[i]
	return min(k.Capacity, g.port(k.From), g.port(k.To)) * netmap.BytesPerSec(UserShare*(1-k.Loss)*(1-g.Cross[i]))
}

// port returns what a host of a site can send or receive.
func (g *Grid) port(site int) netmap.BytesPerSec { return g.File.Sites[site].LAN.Bandwidth }

// RoundTrip is that of the path of link i and back alone: no queue, packets of no length, no jitter.
func (g *Grid) RoundTrip(i int) time.Duration {
	return g.File.WAN[i].Latency + g.File.WAN[g.back(i)].Latency
}

// Name returns link i as a→b.
func (g *Grid) Name(i int) string {
	k := g.File.WAN[i]
	return g.File.Sites[k.From].Name + "→" + g.File.Sites[k.To].Name
}

// Describe says what link i is, and all that makes it no plain link.
func (g *Grid) Describe(i int) string {
	k := g.File.WAN[i]
	s := fmt.Sprintf("%.3g Mbit/s %.3g ms", float64(k.Capacity)*8/1e6, float64(k.Latency.Microseconds())/1000)
	if k.Bandwidth < k.Capacity {
		s += fmt.Sprintf(", a flow %.3g", float64(k.Bandwidth)*8/1e6)
	}
	if port := min(g.port(k.From), g.port(k.To)); port < k.Bandwidth {
		s += fmt.Sprintf(", a port %.3g", float64(port)*8/1e6)
	}
	if k.Loss > 0 {
		s += fmt.Sprintf(", loss %.2g %%", 100*k.Loss)
	}
	if k.Jitter > 0 {
		s += fmt.Sprintf(", jitter %.2g ms", float64(k.Jitter.Microseconds())/1000)
	}
	if k.Queue > 0 {
		s += fmt.Sprintf(", queue %d of %.0f", k.Queue, bdp(k.Capacity, g.RoundTrip(i)))
	}
	if g.Cross[i] > 0 {
		s += fmt.Sprintf(", strangers %.0f %%", 100*g.Cross[i])
	}
	return s
}

// String is the grid on one line.
func (g *Grid) String() string {
	var sites []string
	for _, s := range g.File.Sites {
		sites = append(sites, fmt.Sprintf("%s: %d at %.3g Mbit/s", s.Name, s.Hosts, float64(s.LAN.Bandwidth)*8/1e6))
	}
	return strings.Join(sites, ", ")
}

// YAML returns the grid file; strangers have no place in it.
func (g *Grid) YAML() string {
	var b strings.Builder
	b.WriteString("sites:\n")
	for _, s := range g.File.Sites {
		fmt.Fprintf(&b, "  - {name: %s, hosts: %d, lan: {bandwidth: %s, latency: %v}}\n", s.Name, s.Hosts, bits(s.LAN.Bandwidth), s.LAN.Latency)
	}
	b.WriteString("wan:\n")
	for _, k := range g.File.WAN {
		fmt.Fprintf(&b, "  - {from: %s, to: %s, bandwidth: %s, capacity: %s, latency: %v", g.File.Sites[k.From].Name, g.File.Sites[k.To].Name,
			bits(k.Bandwidth), bits(k.Capacity), k.Latency)
		if k.Jitter > 0 {
			fmt.Fprintf(&b, ", jitter: %v", k.Jitter)
		}
		if k.Loss > 0 {
			fmt.Fprintf(&b, ", loss: %s", gridfile.FormatPercent(k.Loss))
		}
		if k.Queue > 0 {
			fmt.Fprintf(&b, ", queue: %d", k.Queue)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func bits(r netmap.BytesPerSec) string { return fmt.Sprintf("%.0fbps", float64(r)*8) }
