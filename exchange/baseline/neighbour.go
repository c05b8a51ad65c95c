package baseline

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// NeighbourExchange returns the neighbour-exchange allgather of an even number N of ranks
// on a logical ring, N/2 iterations: in the first, ranks 2k and 2k+1 exchange their
// blocks. In those after it a rank exchanges with its other neighbour and its first one by
// turns, and sends the two blocks that it got last (in the second, its own and its partner's).
// It has half the iterations of [Ring] for the same bytes.
//
// An odd N leaves a rank without a partner. Nobody describes a generalisation, and libraries
// run the ring instead; so it is an error here, which says so, rather than a ring under
// another name. One rank has nothing to do.
//
// Source: J. Chen, L. Zhang, Y. Zhang, W. Yuan, "Performance Evaluation of Allgather
// Algorithms on Terascale Linux Cluster with Fast Ethernet", HPC Asia 2005. Gupta & Vadhiyar
// do not name it; it stands in for the large messages of libraries on clusters.
func NeighbourExchange(hosts []string, sizes []int64) (*plan.Plan, error) {
	b, err := newBuilder("neighbour-exchange", hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := b.n
	if n > 1 && n%2 == 1 {
		return nil, fmt.Errorf("neighbour-exchange: %d hosts: it needs an even number, run ring instead", n)
	}
	// carry holds, by rank, what it sends in the next iteration.
	carry := make([][]int, n)
	for p := range n {
		carry[p] = []int{p}
	}
	for i := 1; i <= n/2; i++ {
		got := make([][]int, n)
		for p := range n {
			// Odd iterations pair 2k with 2k+1, even ones with 2k−1.
			q := (p + 1) % n
			if p%2 == i%2 {
				q = (p - 1 + n) % n
			}
			b.step(p, q, carry[p]...)
			got[q] = carry[p]
		}
		b.endIteration()
		if i == 1 {
			for p := range n {
				got[p] = append([]int{p}, got[p]...)
			}
		}
		carry = got
	}
	return b.plan, nil
}
