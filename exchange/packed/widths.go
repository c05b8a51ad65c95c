package packed

import (
	"math"

	"github.com/gridagent/gridagent/exchange/plan"
)

// widths say how many flows fill each link, and how large pieces may be for so many to be under way.
type widths struct {
	n     int
	flows []int     // [from*n+to]
	moved []float64 // [from*n+to], bytes that cross the link
	ends  []int     // [host*n+pool]: over how many pairs of hosts a host sends there
	alike []bool    // [from*n+to]: hosts have so different amounts for it that they send for each other, all alike
}

// blindFlows is for how many flows a link is planned of which nobody knows what several get. Were it one, and something held each flow, a few
// pairs of hosts would carry what many could. On a link that one flow fills, eight share it and lose little.
const blindFlows = 8

func newWidths(s *sites, net *plan.Network, pools [][]int, sizes []int64, trees []tree, blind []bool) *widths {
	w := &widths{n: s.n, flows: make([]int, s.n*s.n), moved: make([]float64, s.n*s.n)}
	for a, hosts := range pools {
		for b, others := range pools {
			flow := 0.0
			for _, x := range hosts {
				for _, y := range others {
					flow = max(flow, float64(net.Ceiling[x*len(net.Pool)+y]))
				}
			}
			w.flows[a*s.n+b] = 1
			if all := float64(s.capacity[a*s.n+b]); flow > 0 && all > flow {
				// One flow more for the last digits of a quotient would be one too many.
				w.flows[a*s.n+b] = int(min(math.Ceil(all/flow-1e-6), float64(len(hosts)*len(others))))
			}
			if a != b && blind[a*s.n+b] {
				w.flows[a*s.n+b] = max(w.flows[a*s.n+b], min(blindFlows, len(hosts)*len(others)))
			}
		}
	}
	for i := range trees {
		for to, from := range trees[i].parent {
			if from >= 0 {
				w.moved[from*s.n+to] += float64(trees[i].bytes)
			}
		}
	}
	w.share(s, pools, sizes, trees)
	return w
}

// several reports whether a link on the way of t takes more than one flow.
func (w *widths) several(t *tree) bool {
	for to, from := range t.parent {
		if from >= 0 && w.flows[from*w.n+to] > 1 {
			return true
		}
	}
	return false
}

// limit returns the largest piece that t should carry: where several flows fill a link, what each of
// them carries. 0 is no limit.
func (w *widths) limit(t *tree) int64 {
	limit := math.Inf(1)
	for to, from := range t.parent {
		if from < 0 {
			continue
		}
		if e := from*w.n + to; w.flows[e] > 1 {
			limit = min(limit, w.moved[e]/float64(w.flows[e]))
		}
	}
	if math.IsInf(limit, 1) {
		return 0
	}
	return max(least, int64(limit))
}

// firstWindow is what a connection has under way at first, in bytes: 32 packets. Over a link that one flow fills, but that holds more than that, hosts that are fewer than the windows which fill it send over more pairs: a lone relay
// with one connection of 12 Mbit/s over a link of 30 took half as long again.
const firstWindow = 32 * 1400

// spare is what of a flow a host may lack before it sends over one pair of hosts more.
const spare = 0.05

// unlike is how many times the mean of its pool a host has to send over a link for the others to send some of it, and burden how many bytes more than that. These must also take the link as
// a whole longer than a byte is on its way: what goes out at once meets no rate that it would have to find, and one host's lanes lose fewer packets than those of many.
const (
	unlike = 1.5
	burden = 32 << 10
)

// share sets ends: all hosts of a pool together send over about as many pairs as flows fill the link, each over as many as
// its part of the bytes. It sets alike, too.
func (w *widths) share(s *sites, pools [][]int, sizes []int64, trees []tree) {
	straight := make([]float64, w.n*w.n) // by link: bytes of its own pool
	for i := range trees {
		for to, from := range trees[i].parent {
			if from == trees[i].root {
				straight[from*w.n+to] += float64(trees[i].bytes)
			}
		}
	}
	w.ends, w.alike = make([]int, len(sizes)*w.n), make([]bool, w.n*w.n)
	for from, pool := range pools {
		for to := range w.n {
			e := from*w.n + to
			mean := w.moved[e] / float64(len(pool))
			fill := float64(w.flows[e])
			if w.flows[e] == 1 {
				fill = max(fill, 2*s.latency[e]*float64(s.capacity[e])/firstWindow)
			}
			relayed := (w.moved[e] - straight[e]) / float64(len(pool))
			of := func(h int) float64 { return relayed + straight[e]*float64(sizes[h])/float64(max(s.bytes[from], 1)) }
			for _, h := range pool {
				if more := of(h) - mean; more > (unlike-1)*mean && more > max(burden, s.latency[e]*float64(s.capacity[e])) {
					w.alike[e] = true
				}
			}
			for _, h := range pool {
				bytes := of(h)
				if w.alike[e] {
					bytes = mean
				}
				flows := bytes / max(w.moved[e], 1) * fill
				w.ends[h*w.n+to] = max(1, min(int(math.Ceil(flows-spare)), len(pools[to])))
			}
		}
	}
}

// pairs returns over how many pairs of hosts the block of host leaves its pool on t.
func (w *widths) pairs(host int, t *tree) int64 {
	most := 1
	for to, from := range t.parent {
		if from == t.root {
			most = max(most, w.ends[host*w.n+to])
		}
	}
	return int64(most)
}

// turns returns over how many pairs each host of the root sends on t where they send for each other, 0 where they do not.
func (w *widths) turns(t *tree, hosts []int) (most int) {
	for to, from := range t.parent {
		if from == t.root && w.alike[from*w.n+to] {
			most = max(most, w.ends[hosts[0]*w.n+to]) // that of one is that of all
		}
	}
	return most
}
