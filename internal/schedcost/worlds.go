package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// blockBytes is the size of every block. No scheduler here works harder for a larger one.
const blockBytes = 64 << 10

// A world is a kind of network that exists with any number of hosts.
type world struct {
	name    string
	about   string // for the page
	problem func(n int) (*planner.Problem, error)
}

// worlds in the order of preference: an algorithm is measured on the first that it accepts.
var worlds = []world{
	{"grid", "continents of sites of about √n hosts: 100 Mbit/s in a site, 10 between sites, 2 between continents, each link up to 3 % off", grid},
	{"racks", "switches with 16 hosts each, at least two, on a core switch without hosts", func(n int) (*planner.Problem, error) { return switches(n, true) }},
	{"chain", "switches with 16 hosts each, at least two, in a line", func(n int) (*planner.Problem, error) { return switches(n, false) }},
}

func grid(n int) (*planner.Problem, error) {
	rng := rand.New(rand.NewPCG(uint64(n), 14))
	site := 1
	for site*site < n {
		site++
	}
	sites := (n + site - 1) / site
	perContinent := (sites + 3) / 4
	hosts := make([]netmap.Host, n)
	for i := range hosts {
		hosts[i] = netmap.Host{Name: fmt.Sprintf("h%d", i), Site: fmt.Sprintf("s%d", i/site)}
	}
	// 3 % to either side stay inside one band of the pool tree, which is then that of
	// continents and sites.
	noise := func() float64 { return 0.97 + 0.06*rng.Float64() }
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			rate, latency := 100*netmap.Mbps, 60*time.Microsecond
			switch a, b := i/site, j/site; {
			case a/perContinent != b/perContinent:
				rate, latency = 2*netmap.Mbps, 50*time.Millisecond
			case a != b:
				rate, latency = 10*netmap.Mbps, 10*time.Millisecond
			}
			est[i*n+j] = netmap.Estimate{
				Known:     netmap.FieldLatency | netmap.FieldBandwidth,
				Latency:   time.Duration(float64(latency) * noise()),
				Bandwidth: netmap.BytesPerSec(float64(rate) * noise()),
			}
		}
	}
	return onSnapshot(netmap.NewSnapshot(1, hosts, est))
}

func onSnapshot(s *netmap.Snapshot) (*planner.Problem, error) {
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		return nil, err
	}
	return sized(&planner.Problem{Snapshot: s, Tree: tree}), nil
}

// switches is a line of switches with hosts, or a star of them around a core.
func switches(n int, core bool) (*planner.Problem, error) {
	const rack = 16
	racks := max(2, n/rack)
	var names, hosts []string
	var links [][2]int
	for s := range racks {
		names = append(names, fmt.Sprintf("s%d", s))
		switch {
		case core:
			links = append(links, [2]int{racks, s})
		case s > 0:
			links = append(links, [2]int{s - 1, s})
		}
	}
	if core {
		names = append(names, "core")
	}
	home := make([]int, n)
	for h := range home {
		hosts = append(hosts, fmt.Sprintf("h%d", h))
		home[h] = h * racks / n
	}
	t, err := plan.NewTopology(names, links, hosts, home, 1000*netmap.Mbps)
	if err != nil {
		return nil, err
	}
	return sized(planner.OnTopology(t)), nil
}

// sized gives p the sizes of an allgather and of an alltoall.
func sized(p *planner.Problem) *planner.Problem {
	p.Sizes = make([]int64, len(p.Hosts()))
	for i := range p.Sizes {
		p.Sizes[i] = blockBytes
	}
	p.Alltoall.Uniform = blockBytes
	return p
}
