package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A network is what the lab is made from.
type network struct {
	name  string // of the file, without folder and ending
	hosts []netmap.Host
	model *plan.Network
	links []link
}

// A link is a path that iperf3 checks: between two hosts, over the link that it is named after.
type link struct {
	name     string
	from, to string             // hosts
	rate     netmap.BytesPerSec // of IP bytes, that one flow can get
	capacity netmap.BytesPerSec // that all flows get together
}

// loadNetwork reads the file of c.
func loadNetwork(c *config) (*network, error) {
	if c.Grid != "" {
		data, err := read(c.Grid, configs.Grid)
		if err != nil {
			return nil, fmt.Errorf("grid: %w", err)
		}
		g, err := gridfile.Parse(c.Grid, data)
		if err != nil {
			return nil, err
		}
		return ofGrid(nameOf(c.Grid), g)
	}
	data, err := read(c.Topology, configs.Topology)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	t, err := plan.ReadTopology(c.Topology, data)
	if err != nil {
		return nil, err
	}
	if c.LinkRate != "" {
		rate, err := gridfile.ParseRate(c.LinkRate)
		if err != nil {
			return nil, fmt.Errorf("--link-rate: %w", err)
		}
		t = t.WithBandwidth(rate)
	}
	return ofTopology(nameOf(c.Topology), t)
}

func nameOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// read prefers a file to what is built in, as the commands of gridagent do.
func read(path string, builtIn func(string) ([]byte, bool)) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return data, nil
	}
	if data, ok := builtIn(path); ok {
		return data, nil
	}
	return nil, err
}

func ofGrid(name string, g *gridfile.Grid) (*network, error) {
	if g.Matrix() {
		return nil, fmt.Errorf("%s: the matrix form does not say which links the hosts share; give sites and wan", name)
	}
	snap, err := g.Snapshot()
	if err != nil {
		return nil, err
	}
	n := &network{name: name, hosts: snap.Hosts()}
	// One pool a site: the links of the file join sites, whatever their rates are.
	var pools [][]int
	h := 0
	for s, site := range g.Sites {
		var pool []int
		for range site.Hosts {
			pool = append(pool, h)
			h++
		}
		pools = append(pools, pool)
		if rate := site.LAN.Bandwidth; site.Hosts > 1 {
			n.links = append(n.links, link{site.Name, g.HostName(s, 0), g.HostName(s, 1), rate, rate})
		}
	}
	for _, l := range g.WAN {
		ports := min(lanRate(g, l.From), lanRate(g, l.To))
		n.links = append(n.links, link{
			g.Sites[l.From].Name + "→" + g.Sites[l.To].Name, g.HostName(l.From, 0), g.HostName(l.To, 0),
			min(l.Bandwidth, ports), l.Capacity,
		})
	}
	n.model, err = plan.NetworkOf(snap, pools, 1)
	return n, err
}

// lanRate is the rate of a host's port. Of a host that is alone in its site the file may say none.
func lanRate(g *gridfile.Grid, site int) netmap.BytesPerSec {
	if g.Sites[site].LAN.Bandwidth > 0 {
		return g.Sites[site].LAN.Bandwidth
	}
	return netmap.BytesPerSec(math.Inf(1))
}

func ofTopology(name string, t *plan.Topology) (*network, error) {
	model, err := plan.NetworkOfTopology(t, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; give --link-rate", name, err)
	}
	n := &network{name: name, model: model}
	rate, _ := t.Bandwidth()
	first := make(map[int]string) // of a switch's hosts
	paired := make(map[int]bool)
	for h, host := range t.Hosts() {
		s := t.Home(h)
		n.hosts = append(n.hosts, netmap.Host{Name: host, Site: t.Switches()[s]})
		switch {
		case first[s] == "":
			first[s] = host
		case !paired[s]:
			paired[s] = true
			n.links = append(n.links, link{t.Switches()[s], first[s], host, rate, rate})
		}
	}
	for _, trunk := range model.Trunks {
		from, to := ends(trunk, t)
		n.links = append(n.links, link{trunk.From + "→" + trunk.To, from, to, rate, rate})
	}
	return n, nil
}

// ends returns a host before and one behind a trunk, on the switches at its ends where they have any.
func ends(trunk plan.Trunk, t *plan.Topology) (from, to string) {
	atFrom, atTo := false, false
	for h, host := range t.Hosts() {
		home := t.Switches()[t.Home(h)]
		if slices.Contains(trunk.Behind, h) {
			if to == "" || (!atTo && home == trunk.To) {
				to, atTo = host, home == trunk.To
			}
		} else if from == "" || (!atFrom && home == trunk.From) {
			from, atFrom = host, home == trunk.From
		}
	}
	return from, to
}

// bound returns the least time in seconds that a collective whose largest block has size bytes can take, and the least without
// relays if that is another one, else 0.
func (n *network) bound(c plan.Collective, shape bench.Shape, size int64) (least, direct float64, err error) {
	if c == plan.Alltoall {
		sizes := plan.AlltoallSizes{Uniform: size}
		if !shape.Even() {
			sizes.Matrix = shape.Matrix(size, len(n.hosts))
		}
		b, err := n.model.AlltoallBounds(sizes)
		if err != nil {
			return 0, 0, err
		}
		if direct = b.Direct.Seconds; direct <= b.Relayed.Seconds*(1+1e-6) {
			direct = 0 // they are equal but for rounding
		}
		return b.Relayed.Seconds, direct, nil
	}
	b, err := n.model.AllgatherBound(shape.Blocks(size, len(n.hosts)))
	return b.Seconds, 0, err
}

// least returns how many bytes must cross the links between sites, or the trunks, of which each has the hosts behind
// it and all others before it.
func (n *network) least(c plan.Collective, shape bench.Shape, size int64) (bytes int64) {
	hosts := len(n.hosts)
	into := func(behind []int) {
		inside := make([]bool, hosts)
		for _, h := range behind {
			inside[h] = true
		}
		if c == plan.Allgather {
			for from, b := range shape.Blocks(size, hosts) {
				if !inside[from] {
					bytes += b
				}
			}
			return
		}
		for from, row := range shape.Matrix(size, hosts) {
			for to, b := range row {
				if !inside[from] && inside[to] {
					bytes += b
				}
			}
		}
	}
	for _, t := range n.model.Trunks {
		into(t.Behind)
	}
	for _, hosts := range n.inSite() {
		into(hosts)
	}
	return bytes
}

// inSite lists the hosts of each site of a grid.
func (n *network) inSite() map[string][]int {
	sites := make(map[string][]int)
	if len(n.model.Trunks) > 0 {
		return sites // switches are no sites
	}
	for i, h := range n.hosts {
		sites[h.Site] = append(sites[h.Site], i)
	}
	return sites
}
