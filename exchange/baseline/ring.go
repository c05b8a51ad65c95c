package baseline

import "github.com/gridagent/gridagent/exchange/plan"

// Ring returns the ring (bucket, circular) allgather in rank order: N−1 iterations, in
// each of which rank p sends to p+1 the block that it received in the iteration
// before, its own in the first.
//
// Gupta & Vadhiyar §2 print the index of the block in iteration i as p−i+1+N mod N, which is
// this. sizes is one size or one for each host. The error names what is wrong with the sizes.
func Ring(hosts []string, sizes []int64) (*plan.Plan, error) {
	b, err := newBuilder("ring", hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := b.n
	for i := 1; i < n; i++ {
		for p := range n {
			b.step(p, (p+1)%n, (p-i+1+n)%n)
		}
		b.endIteration()
	}
	return b.plan, nil
}
