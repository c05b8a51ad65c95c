package baseline

import (
	"math/bits"

	"github.com/gridagent/gridagent/exchange/plan"
)

// AlltoallBruck returns the alltoall of ⌈log₂ N⌉ steps, MPICH's for short messages: in
// step r = 0, 1 … rank p sends to p+2^r, in one transfer, all blocks that it holds and
// whose distance from origin to destination has bit r. So a block travels its distance in
// powers of two, lowest first, and is held by ranks that do not want it in between.
// A step waits for what its rank sent and received in the step before. Each rank sends
// half of its blocks in each step: N·⌈log₂ N⌉ transfers of up to N/2 blocks.
//
// Source: Bruck et al., TPDS 8(11), 1997, the index operation with radix 2.
func AlltoallBruck(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	a, err := newAlltoall("bruck", hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := a.n
	for r := 0; 1<<r < n; r++ {
		hop := 1 << r
		for p := range n {
			var blocks []plan.Block
			var data []int
			brought := make([]bool, r) // by earlier step: it has brought some of blocks
			for dist := hop; dist < n; dist++ {
				if dist&hop == 0 {
					continue
				}
				gone := dist & (hop - 1) // how far the block has come
				origin := (p - gone + n) % n
				blocks = append(blocks, plan.Block{Origin: origin, Dest: (origin + dist) % n})
				if gone == 0 {
					continue
				}
				if step := bits.Len(uint(gone)) - 1; !brought[step] {
					brought[step] = true
					from := (p - (1 << step) + n) % n
					data = append(data, step*n+from) // each step has n transfers, by source
				}
			}
			a.step(p, (p+hop)%n, blocks, data...)
		}
		a.endIteration()
	}
	return a.plan, nil
}

// AlltoallRing returns the alltoall in which ranks talk to their neighbour only: in step
// i = 1 … N−1 rank p passes on to p+1 what is still to go of the blocks that it received
// in the step before, in the first one its own. These are the N−i blocks of rank p−i+1
// for the ranks from p+1 on. A step waits for what its rank sent and received before.
//
// Every link of the ring carries N(N−1)/2 blocks, N/2 times what a direct exchange
// sends from a host: for networks where only the ring's links are good. What Faraj & Yuan
// call MPICH's ring algorithm is the exchange with shifts, see [AlltoallPairwise].
func AlltoallRing(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	a, err := newAlltoall("ring", hosts, sizes)
	if err != nil {
		return nil, err
	}
	a.reserve(a.n * (a.n - 1))
	n := a.n
	for i := 1; i < n; i++ {
		for p := range n {
			// What it received in the step before, and so waits for, holds these blocks.
			a.step(p, (p+1)%n, a.far((p-i+1+n)%n, i))
		}
		a.endIteration()
	}
	return a.plan, nil
}
