package plan

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Subset returns the tree with only the hosts named, in their order: the network that the
// ranks of a job see of a site whose other hosts are idle. All switches stay. It returns an
// error that names the first host that t lacks, or that is named twice.
func (t *Topology) Subset(hosts []string) (*Topology, error) {
	at, err := t.indices(hosts)
	if err != nil {
		return nil, err
	}
	home := make([]int, len(at))
	for i, h := range at {
		home[i] = t.home[h]
	}
	var links [][2]int
	for a, adjacent := range t.neighbours {
		for _, b := range adjacent {
			if a < b {
				links = append(links, [2]int{a, b})
			}
		}
	}
	return NewTopology(t.switches, links, slices.Clone(hosts), home, t.bandwidth)
}

// Covers reports whether t holds all of the hosts.
func (t *Topology) Covers(hosts []string) bool {
	_, err := t.indices(hosts)
	return err == nil
}

// AddTree adds the links between the switches of t to a network of which t's hosts are a part,
// those of one site. rate is that of the links where t does not say it. What enters or leaves
// the site is taken to pass the first switch of t: files do not say where the router is.
//
// It returns an error if a host of t is not in the network.
func (n *Network) AddTree(t *Topology, rate netmap.BytesPerSec) error {
	if r, ok := t.Bandwidth(); ok {
		rate = r
	}
	if !(rate > 0) {
		return fmt.Errorf("switch tree of %d hosts: neither declared nor measured how fast its links are", len(t.hosts))
	}
	at := make(map[string]int, len(n.Hosts))
	for i, h := range n.Hosts {
		at[h] = i
	}
	for _, h := range t.hosts {
		if _, ok := at[h]; !ok {
			return fmt.Errorf("switch tree: host %q is not in the network", h)
		}
	}
	for s := range t.switches {
		v := len(t.hosts) + s
		if t.parent[v] < 0 {
			continue
		}
		below := make([]bool, len(n.Hosts))
		for h, name := range t.hosts {
			below[at[name]] = t.under(h, v)
		}
		var under, over []int
		for h := range n.Hosts {
			if below[h] {
				under = append(under, h)
			} else {
				over = append(over, h)
			}
		}
		if len(under) == 0 || len(over) == 0 {
			continue
		}
		up, down := t.name(v), t.name(t.parent[v])
		n.Trunks = append(n.Trunks,
			Trunk{From: down, To: up, Rate: rate, Behind: under},
			Trunk{From: up, To: down, Rate: rate, Behind: over})
	}
	return nil
}
