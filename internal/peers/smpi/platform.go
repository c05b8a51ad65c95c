package smpi

import (
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Platform is a network in SimGrid's terms: links, and for every ordered pair of hosts
// the links on its path. A host
// that is alone in its site has no ports.
type Platform struct {
	hosts  []string
	links  []link
	routes [][]int // [from*n+to], indices of links; nil on the diagonal
}

// A link is directed. Flows share it, or, if it is wide, each gets all of its rate.
type link struct {
	id      string
	rate    netmap.BytesPerSec
	latency time.Duration
	wide    bool // SimGrid: FATPIPE
}

func (p *Platform) add(l link) int {
	p.links = append(p.links, l)
	return len(p.links) - 1
}

// none marks a port that a host does not have.
const none = -1

// ofGrid returns the platform of a grid in the human form; hosts are in rank order. Of the
// matrix form the links behind the pairs are not known: that is an error.
func ofGrid(g *gridfile.Grid) (*Platform, error) {
	if g.Matrix() {
		return nil, fmt.Errorf("smpi: the grid is a matrix over hosts; a platform needs sites and the links between them")
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("smpi: %w", err)
	}
	p := &Platform{}
	var site, out, in []int // by host
	lan := make([]int, len(g.Sites))
	for s, d := range g.Sites {
		lan[s] = none
		if d.Hosts > 1 {
			lan[s] = p.add(link{id: "lan-" + d.Name, rate: d.LAN.Bandwidth, latency: d.LAN.Latency, wide: true})
		}
		for i := range d.Hosts {
			name, up, down := g.HostName(s, i), none, none
			if d.Hosts > 1 {
				up = p.add(link{id: "out-" + name, rate: d.LAN.Bandwidth})
				down = p.add(link{id: "in-" + name, rate: d.LAN.Bandwidth})
			}
			p.hosts, site = append(p.hosts, name), append(site, s)
			out, in = append(out, up), append(in, down)
		}
	}
	wan := make(map[[2]int][]int)
	for _, l := range g.WAN {
		name := g.Sites[l.From].Name + "-" + g.Sites[l.To].Name
		way := []int{p.add(link{id: "wan-" + name, rate: l.Capacity, latency: l.Latency})}
		if l.Bandwidth < l.Capacity {
			way = append(way, p.add(link{id: "flow-" + name, rate: l.Bandwidth, wide: true}))
		}
		wan[[2]int{l.From, l.To}] = way
	}
	p.connect(func(a, b int) []int {
		middle := []int{lan[site[a]]}
		if site[a] != site[b] {
			middle = wan[[2]int{site[a], site[b]}]
		}
		path := append(append([]int{out[a]}, middle...), in[b])
		present := path[:0]
		for _, l := range path {
			if l != none {
				present = append(present, l)
			}
		}
		return present
	})
	return p, nil
}

// ofTopology returns the platform of a switch tree with latency between every pair of hosts. It fails
// where the file does not say the rate of the links.
func ofTopology(t *plan.Topology, latency time.Duration) (*Platform, error) {
	rate, ok := t.Bandwidth()
	if !ok {
		return nil, fmt.Errorf("smpi: the switch tree has no bandwidth_mbps")
	}
	p := &Platform{hosts: t.Hosts()}
	delay := p.add(link{id: "latency", rate: rate, latency: latency, wide: true})
	of := make(map[plan.LinkID]int)
	p.connect(func(a, b int) []int {
		path := []int{delay}
		for _, l := range t.Path(nil, a, b) {
			k, ok := of[l]
			if !ok {
				from, to := t.Ends(l)
				k = p.add(link{id: "cable-" + from + "-" + to, rate: rate})
				of[l] = k
			}
			path = append(path, k)
		}
		return path
	})
	return p, nil
}

// connect fills in the routes. path must return a slice of its own for every pair.
func (p *Platform) connect(path func(a, b int) []int) {
	n := len(p.hosts)
	p.routes = make([][]int, n*n)
	for a := range n {
		for b := range n {
			if a != b {
				p.routes[a*n+b] = path(a, b)
			}
		}
	}
}
