package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Network is the flow-level model of N hosts in P pools that [Simulate] and the
// bound share: every host has a port out and a port in, every ordered pair of pools a
// pipe, and every ordered pair of hosts a latency and a ceiling. A rate of 0 is not
// measured: using it is an error, never an infinitely slow link.
type Network struct {
	Hosts   []string             // N names, in the order of the plan's hosts
	Pool    []int                // N: the pool of each host
	Egress  []netmap.BytesPerSec // N: port out
	Ingress []netmap.BytesPerSec // N: port in
	Pipe    []netmap.BytesPerSec // P×P, [from*P+to]; the diagonal is not read: a pool has no pipe inside
	Ceiling []netmap.BytesPerSec // N×N, [from*N+to]: what one pair gets at most
	Latency []time.Duration      // N×N, [from*N+to], one way

	// Guessed are the hosts whose ports nobody knows, ascending: alone in their pools, they are given what all their pipes take together.
	Guessed []int

	// Trunks are links that hosts share inside pools, such as those between switches.
	// Beside them every host has its ports.
	Trunks []Trunk
}

// A Trunk is a directed link that parts the hosts in two: all traffic from the others
// to those behind it crosses it.
type Trunk struct {
	From, To string // names of the nodes at its ends
	Rate     netmap.BytesPerSec
	Behind   []int // hosts, ascending
}

// NetworkOfTopology is the network of a switch tree: one pool, every port and every
// link between switches at the rate of the file, every pair of hosts one latency
// apart. It fails where the file says no rate.
func NetworkOfTopology(t *Topology, latency time.Duration) (*Network, error) {
	rate, ok := t.Bandwidth()
	if !ok {
		return nil, errors.New("network: the switch tree has no bandwidth_mbps, and without it nothing takes any time")
	}
	n := len(t.hosts)
	net := &Network{
		Hosts:   t.hosts,
		Pool:    make([]int, n),
		Egress:  slices.Repeat([]netmap.BytesPerSec{rate}, n),
		Ingress: slices.Repeat([]netmap.BytesPerSec{rate}, n),
		Pipe:    make([]netmap.BytesPerSec, 1),
		Ceiling: slices.Repeat([]netmap.BytesPerSec{rate}, n*n),
		Latency: slices.Repeat([]time.Duration{latency}, n*n),
		Trunks:  t.trunks(rate),
	}
	return net, nil
}

// trunks returns both directions of every link between switches that has hosts on both sides.
func (t *Topology) trunks(rate netmap.BytesPerSec) []Trunk {
	n := len(t.hosts)
	var trunks []Trunk
	for s := range t.switches {
		v := n + s
		if t.parent[v] < 0 {
			continue
		}
		var below, above []int
		for h := range n {
			if t.under(h, v) {
				below = append(below, h)
			} else {
				above = append(above, h)
			}
		}
		if len(below) == 0 || len(above) == 0 {
			continue
		}
		down, up := t.name(t.parent[v]), t.name(v)
		trunks = append(trunks, Trunk{From: down, To: up, Rate: rate, Behind: below}, Trunk{From: up, To: down, Rate: rate, Behind: above})
	}
	return trunks
}

// under reports whether node v is on the way from host h to the root.
func (t *Topology) under(h, v int) bool {
	for h >= 0 && t.depth[h] > t.depth[v] {
		h = t.parent[h]
	}
	return h == v
}

// Pools returns P.
func (n *Network) Pools() int {
	pools := 0
	for _, k := range n.Pool {
		pools = max(pools, k+1)
	}
	return pools
}

// NetworkOf derives a network from a snapshot and a partition of its hosts into pools:
//
//   - the pipe from pool a to b is the largest many-flow capacity over host pairs a→b,
//     since all of them are taken to share one path, or what the link was seen to carry beyond that
//     ([netmap.Snapshot.Link]);
//   - a host's ports are the most that it gets with any other host alone, in and out ([netmap.Snapshot.Pair]); those of
//     a host alone in its pool what is declared ([netmap.Host]), or else the sum of its pool's pipes;
//   - a pair's ceiling is its one-flow bandwidth times lanes, the number of connections
//     that the engine opens to a host, up to what the pair gets. 0 lanes means 1.
//
// It fails if pools is no partition. Pairs that are not measured stay 0.
func NetworkOf(s *netmap.Snapshot, pools [][]int, lanes int) (*Network, error) {
	if lanes < 0 {
		return nil, fmt.Errorf("network: %d lanes", lanes)
	}
	n := s.N()
	pool, err := poolOf(n, pools)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	net := &Network{
		Hosts:   s.Names(),
		Pool:    pool,
		Egress:  make([]netmap.BytesPerSec, n),
		Ingress: make([]netmap.BytesPerSec, n),
		Pipe:    make([]netmap.BytesPerSec, len(pools)*len(pools)),
		Ceiling: make([]netmap.BytesPerSec, n*n),
		Latency: make([]time.Duration, n*n),
	}
	for i := range n {
		for j := range n {
			e := s.Estimate(i, j)
			if i == j || !e.Has(netmap.FieldBandwidth|netmap.FieldLatency) || e.Bandwidth <= 0 || !isRate(e.Bandwidth) {
				continue
			}
			// Two probes may disagree: many flows never get less than one does.
			all, _ := s.Capacity(i, j)
			all = max(all, e.Bandwidth)
			pair, _ := s.Pair(i, j)
			net.Egress[i], net.Ingress[j] = max(net.Egress[i], pair), max(net.Ingress[j], pair)
			pipe := &net.Pipe[pool[i]*len(pools)+pool[j]]
			link, _ := s.Link(i, j)
			*pipe = max(*pipe, all, link)
			net.Ceiling[i*n+j] = min(pair, e.Bandwidth*netmap.BytesPerSec(max(lanes, 1)))
			net.Latency[i*n+j] = max(e.Latency, 0)
		}
	}
	net.openLone(s, pools)
	return net, nil
}

// openLone gives hosts that are alone in their pool the ports that are declared, or for all pipes at once: no pair
// tells how fast their ports are, and whatever they are, the pipes are what is known.
func (n *Network) openLone(s *netmap.Snapshot, pools [][]int) {
	for k, pool := range pools {
		if len(pool) != 1 {
			continue
		}
		var out, in netmap.BytesPerSec
		for other := range pools {
			if other != k {
				out += n.Pipe[k*len(pools)+other]
				in += n.Pipe[other*len(pools)+k]
			}
		}
		h := pool[0]
		if port := netmap.BytesPerSec(s.Host(h).PortMbps) * netmap.Mbps; port > 0 {
			n.Egress[h], n.Ingress[h] = min(out, port), min(in, port)
			continue
		}
		n.Egress[h], n.Ingress[h] = out, in
		n.Guessed = append(n.Guessed, h)
	}
}

// poolOf returns the pool of each of n hosts, or an error if pools is no partition of them.
func poolOf(n int, pools [][]int) ([]int, error) {
	pool := make([]int, n)
	for i := range pool {
		pool[i] = -1
	}
	for k, hosts := range pools {
		if len(hosts) == 0 {
			return nil, fmt.Errorf("pool %d is empty", k)
		}
		for _, h := range hosts {
			if h < 0 || h >= n {
				return nil, fmt.Errorf("pool %d holds host %d, which is none of the %d hosts", k, h, n)
			}
			if pool[h] >= 0 {
				return nil, fmt.Errorf("host %d is in pools %d and %d", h, pool[h], k)
			}
			pool[h] = k
		}
	}
	if h := slices.Index(pool, -1); h >= 0 {
		return nil, fmt.Errorf("host %d is in no pool", h)
	}
	return pool, nil
}
