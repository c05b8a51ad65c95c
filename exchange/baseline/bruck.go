package baseline

import "github.com/gridagent/gridagent/exchange/plan"

// Bruck returns the dissemination allgather of ⌈log₂ N⌉ iterations: in iteration i rank p
// sends to p+2^(i−1) the newest 2^(i−1) blocks, p and those of the ranks below it, and
// in the last one the N − 2^(i−1) that are still missing there.
//
// Source: Gupta & Vadhiyar §2 after Benson et al. and Bruck et al. (TPDS 1997).
// The paper prints p − 2^(i−1) blocks for the last iteration; p is a slip for N.
func Bruck(hosts []string, sizes []int64) (*plan.Plan, error) {
	b, err := newBuilder("bruck", hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := b.n
	for dist := 1; dist < n; dist *= 2 {
		// All send what they hold before the iteration, so the counts do not depend on p.
		count := min(dist, n-dist)
		for p := range n {
			origins := make([]int, count)
			for k := range origins {
				origins[k] = (p - k + n) % n
			}
			b.step(p, (p+dist)%n, origins...)
		}
		b.endIteration()
	}
	return b.plan, nil
}
