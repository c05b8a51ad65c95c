package baseline

import (
	"github.com/gridagent/gridagent/exchange/plan"
)

// Simple returns the simple allgather: every rank posts the sends of its block to all
// others at once, in the order of their ranks, and waits for all (Gupta & Vadhiyar §2). No
// transfer waits for another, so After is empty everywhere; what is left of the order is the plan's.
//
// The paper gives it the time of spreading simple, (N−1)·(L + m/B), as if a host sent one
// after the other. Posted at once the latencies overlap, and the ports alone are the limit.
func Simple(hosts []string, sizes []int64) (*plan.Plan, error) {
	b, err := newBuilder("simple", hosts, sizes)
	if err != nil {
		return nil, err
	}
	for src := range b.n {
		for dst := range b.n {
			if dst != src {
				b.add(src, dst, []int{src})
			}
		}
	}
	return b.plan, nil
}
