package wan

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// guessed returns net with a guess at the ports of hosts that are alone in their pools and of which nobody knows ([plan.Network]), where it is less than what net says. Nobody can measure them: of two hosts in a pool each shows what the other's ports
// take, and net, which is to bound all schedules, gives one alone as much as all its links carry together. A plan that believes that has a host relay what its ports never take: on a
// grid of five sites one with 78 Mbit/s was to relay 125 (drawn-4 in docs/design/planning.md).
//
// Hosts of a grid are much alike. So its ports are taken to be like the median of those that are known; as fast as its fastest link, if that is more; and no slower than what its own
// bytes need in the time that the exchange takes in any case, for the guess is to say what it can relay, not that nothing else could be quicker.
func guessed(net *plan.Network, sizes plan.AlltoallSizes, bounds *plan.AlltoallBounds) *plan.Network {
	pools := net.Pools()
	members := make([]int, pools)
	for _, k := range net.Pool {
		members[k]++
	}
	var known []float64
	for h, k := range net.Pool {
		if members[k] > 1 {
			known = append(known, float64(min(net.Egress[h], net.Ingress[h])))
		}
	}
	if len(known) == 0 || len(net.Guessed) == 0 || !(bounds.Relayed.Seconds > 0) {
		return net
	}
	slices.Sort(known)
	like := known[len(known)/2]
	guess := *net
	guess.Egress, guess.Ingress = slices.Clone(net.Egress), slices.Clone(net.Ingress)
	for _, h := range net.Guessed {
		k := net.Pool[h]
		out, in := like, like
		for other := range pools {
			if other != k {
				out, in = max(out, float64(net.Pipe[k*pools+other])), max(in, float64(net.Pipe[other*pools+k]))
			}
		}
		var sent, got int64
		for o := range net.Hosts {
			if o != h {
				sent, got = sent+sizes.Of(h, o), got+sizes.Of(o, h)
			}
		}
		out, in = max(out, float64(sent)/bounds.Relayed.Seconds), max(in, float64(got)/bounds.Relayed.Seconds)
		guess.Egress[h], guess.Ingress[h] = min(guess.Egress[h], netmap.BytesPerSec(out)), min(guess.Ingress[h], netmap.BytesPerSec(in))
	}
	return &guess
}

// overloads reports whether ports need longer for r than it takes, by more than a hundredth.
func (s *scheduler) overloads(r *plan.Routing) bool {
	rates, load := s.rates()
	for _, p := range r.Paths {
		for _, k := range p.Pools[1 : len(p.Pools)-1] {
			in, out := s.ports(k)
			load[in] += p.Bytes / rates[in]
			load[out] += p.Bytes / rates[out]
		}
	}
	return slices.Max(load[len(s.links):]) > 1.01*r.Seconds
}
