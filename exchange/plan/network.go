package plan

import (
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
//     since all of them are taken to share one path;
//   - a host's ports are the largest capacity on any of its pairs, in and out;
//   - a pair's ceiling is its one-flow bandwidth times lanes, the number of connections
//     that the engine opens to a host, up to the pair's capacity. 0 lanes means 1.
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
			net.Egress[i], net.Ingress[j] = max(net.Egress[i], all), max(net.Ingress[j], all)
			pipe := &net.Pipe[pool[i]*len(pools)+pool[j]]
			*pipe = max(*pipe, all)
			net.Ceiling[i*n+j] = min(all, e.Bandwidth*netmap.BytesPerSec(max(lanes, 1)))
			net.Latency[i*n+j] = max(e.Latency, 0)
		}
	}
	return net, nil
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

// AllgatherBound returns the bound of an allgather over n in which host i contributes
// sizes[i] bytes. See [AllgatherBound].
func (n *Network) AllgatherBound(sizes []int64) (Bound, error) {
	if err := n.check(n.Hosts); err != nil {
		return Bound{}, fmt.Errorf("allgather bound: %w", err)
	}
	if len(sizes) != len(n.Pool) {
		return Bound{}, fmt.Errorf("allgather bound: %d sizes for %d hosts", len(sizes), len(n.Pool))
	}
	pools := n.Pools()
	in := BoundInput{Bytes: make([]int64, pools), Capacity: make([][]netmap.BytesPerSec, pools)}
	var total int64
	for h, size := range sizes {
		if size < 0 || size > maxBytes {
			return Bound{}, fmt.Errorf("allgather bound: size %d of host %d is not in 0…%d", size, h, int64(maxBytes))
		}
		in.Bytes[n.Pool[h]] += size
		total += size
	}
	for a := range pools {
		in.Capacity[a] = n.Pipe[a*pools : (a+1)*pools]
	}
	for h, size := range sizes {
		in.Hosts = append(in.Hosts, HostPortInput{Incoming: total - size, Port: n.Ingress[h]})
	}
	return AllgatherBound(in)
}

// SnapshotBound returns the bound of an allgather over the hosts of s, partitioned
// into pools, in which host i contributes sizes[i] bytes. The capacities are those of [NetworkOf].
func SnapshotBound(s *netmap.Snapshot, pools [][]int, sizes []int64) (Bound, error) {
	n, err := NetworkOf(s, pools, 1)
	if err != nil {
		return Bound{}, fmt.Errorf("allgather bound: %w", err)
	}
	return n.AllgatherBound(sizes)
}
