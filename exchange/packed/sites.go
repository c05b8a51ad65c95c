package packed

import (
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A sites is the network as its pools see it.
type sites struct {
	n        int                  // pools
	capacity []netmap.BytesPerSec // [from*n+to]; 0: no link
	latency  []float64            // [from*n+to], seconds: the least of the pool's host pairs
	way      []float64            // [from*n+to], seconds: the least latency over any pools
	bytes    []int64              // by pool: what starts there
}

// newSites measures the links between the pools of net.
func newSites(net *plan.Network, sizes []int64) *sites {
	p, hosts := net.Pools(), len(net.Pool)
	s := &sites{n: p, capacity: make([]netmap.BytesPerSec, p*p), latency: make([]float64, p*p), bytes: make([]int64, p)}
	out, in := make([]netmap.BytesPerSec, p), make([]netmap.BytesPerSec, p)
	for h, k := range net.Pool {
		s.bytes[k] += sizes[h]
		out[k] += net.Egress[h]
		in[k] += net.Ingress[h]
	}
	for i := range s.latency {
		s.latency[i] = math.Inf(1)
	}
	for a := range hosts {
		for b := range hosts {
			if e := net.Pool[a]*p + net.Pool[b]; net.Ceiling[a*hosts+b] > 0 {
				s.latency[e] = min(s.latency[e], net.Latency[a*hosts+b].Seconds())
			}
		}
	}
	for a := range p {
		for b := range p {
			if e := a*p + b; a != b && !math.IsInf(s.latency[e], 1) {
				s.capacity[e] = min(net.Pipe[e], out[a], in[b])
			}
		}
	}
	s.shortest()
	return s
}

// shortest finds way: Floyd, Comm. ACM 5, 1962.
func (s *sites) shortest() {
	s.way = slices.Clone(s.latency)
	for k := range s.n {
		s.way[k*s.n+k] = 0
	}
	for k := range s.n {
		for a := range s.n {
			for b := range s.n {
				s.way[a*s.n+b] = min(s.way[a*s.n+b], s.way[a*s.n+k]+s.way[k*s.n+b])
			}
		}
	}
}

// reach returns the longest of the least latencies into the pools.
func (s *sites) reach() float64 {
	longest := 0.0
	for to := range s.n {
		least := math.Inf(1)
		for from := range s.n {
			if from != to {
				least = min(least, s.latency[from*s.n+to])
			}
		}
		if !math.IsInf(least, 1) {
			longest = max(longest, least)
		}
	}
	return longest
}
