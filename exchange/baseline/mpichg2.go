package baseline

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
)

// MPICHG2 returns the multilevel allgather of MPICH-G2 over a pool tree, in the two phases
// in which Gupta & Vadhiyar §2 describe it. A pool is represented by its lowest rank.
//
//  1. Up: from the leaves to the root, recursive doubling among the hosts of a leaf, then
//     among the representatives of the sub-pools of each pool above. Each of them then has
//     the data of the pool.
//  2. Down: from the root to the leaves, a pool's representative broadcasts what is missing
//     to those of the sub-pools, and in a leaf to the hosts, along a binomial tree.
//
// All wide-area traffic passes through representatives, and a host does one step at a time
// through both phases: it begins a step when those of its step before, sent and received,
// have ended. Nothing is a barrier; pools that have finished do not wait for others. A block
// enters each pool once.
//
// Choices that the description leaves open: the levels are those of tree (MPICH-G2 has
// fixed ones: WAN, LAN, machine); doubling among numbers that are no powers of two is that of
// [RecursiveDoubling]; the broadcast leaves out what the receiver has from the way up.
//
// The error says what is wrong with the sizes, or why tree is no pool tree of the hosts.
func MPICHG2(hosts []string, sizes []int64, tree *pools.Tree) (*plan.Plan, error) {
	b, err := newBuilder("mpich-g2", hosts, sizes)
	if err != nil {
		return nil, err
	}
	if err := checkTree(tree, hosts); err != nil {
		return nil, fmt.Errorf("mpich-g2: %w", err)
	}
	gatherUp(b, tree.Root)
	castDown(b, tree.Root)
	return b.plan, nil
}

// gatherUp schedules the way up below and in p.
func gatherUp(b *builder, p *pools.Pool) {
	subs := subPools(p)
	for _, sub := range subs {
		if len(sub.Hosts) > 1 {
			gatherUp(b, sub)
		}
	}
	double(b, heads(subs))
}

// castDown schedules the way down in and below p, whose representative has everything.
func castDown(b *builder, p *pools.Pool) {
	subs := subPools(p)
	binomial(b, heads(subs))
	for _, sub := range subs {
		if len(sub.Hosts) > 1 {
			castDown(b, sub)
		}
	}
}
