package packed

import (
	"math"

	"github.com/gridagent/gridagent/exchange/plan"
)

// finer is how many pieces cross a link for each flow that it takes to fill it: so many that pairs
// of hosts, which carry whole pieces, all carry about the same.
const finer = 3

// widths say how many flows fill each link, and how large pieces may be for so many to be under way.
type widths struct {
	n     int
	flows []int     // [from*n+to]
	moved []float64 // [from*n+to], bytes that cross the link
}

func newWidths(s *sites, net *plan.Network, pools [][]int, trees []tree) *widths {
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
		}
	}
	for i := range trees {
		for to, from := range trees[i].parent {
			if from >= 0 {
				w.moved[from*s.n+to] += float64(trees[i].bytes)
			}
		}
	}
	return w
}

// several reports whether a link from pool takes more than one flow.
func (w *widths) several(pool int) bool {
	for to := range w.n {
		if to != pool && w.flows[pool*w.n+to] > 1 {
			return true
		}
	}
	return false
}

// limit returns the largest piece that t should carry: where several flows fill a link, a share
// of what crosses it. 0 is no limit.
func (w *widths) limit(t *tree) int64 {
	limit := math.Inf(1)
	for to, from := range t.parent {
		if from < 0 {
			continue
		}
		if e := from*w.n + to; w.flows[e] > 1 {
			limit = min(limit, w.moved[e]/float64(finer*w.flows[e]))
		}
	}
	if math.IsInf(limit, 1) {
		return 0
	}
	return max(least, int64(limit))
}
