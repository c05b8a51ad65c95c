package baseline

import "github.com/gridagent/gridagent/exchange/plan"

// SpreadingSimple returns the spreading-simple allgather: in iteration i = 1 … N−1
// rank p sends its own block to p+i and receives that of p−i (Gupta & Vadhiyar §2).
// There are no data dependencies; what is left of After is the loop itself, and
// without it this would be the simple algorithm in another order.
func SpreadingSimple(hosts []string, sizes []int64) (*plan.Plan, error) {
	b, err := newBuilder("spreading-simple", hosts, sizes)
	if err != nil {
		return nil, err
	}
	for i := 1; i < b.n; i++ {
		for p := range b.n {
			b.step(p, (p+i)%b.n, p)
		}
		b.endIteration()
	}
	return b.plan, nil
}
