package baseline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A TreeKind says which broadcast trees make an allgather.
type TreeKind string

// The kinds of broadcast tree, see [BroadcastTrees].
const (
	Binomial  TreeKind = "binomial"
	Mateescu  TreeKind = "mateescu"
	Clustered TreeKind = "clustered"
)

// ParseTreeKind reads the values of --tree: binomial, mateescu or clustered.
func ParseTreeKind(s string) (TreeKind, error) {
	switch k := TreeKind(s); k {
	case Binomial, Mateescu, Clustered:
		return k, nil
	}
	return "", fmt.Errorf("tree %q: want binomial, mateescu or clustered", s)
}

// TreeOptions are the choices of one [BroadcastTrees] schedule.
type TreeOptions struct {
	// Kind of the trees; empty means Clustered, the best of the three on a grid.
	Kind TreeKind
	// Duplex is the host model that orders the transfers; zero means full.
	Duplex plan.Duplex
}

// BroadcastTrees returns the allgather that is N broadcasts, each along a tree of its own
// rooted at the block's origin (Gupta & Vadhiyar §6.1). The kinds of tree:
//
//   - Binomial, over the ranks turned so that the origin is first; it knows no network.
//   - Mateescu's (IPDPS 2005), as far as its abstract tells: a shortest-path tree from the
//     origin, generalised so that a host's sends follow one another. Here a host is busy for the
//     send overhead os(m), as in equations 2 and 3; where none was measured this is the
//     shortest-path tree by latency and bandwidth, and where no detour is faster a star, so
//     that the transfers are those of [Simple]. A block may cross a wide-area link several times.
//   - Clustered, after the authors' ClusteredSA (IPDPS 2006): the same growth level by level
//     over the pool tree, so that a block enters each pool once. The paper does not define the
//     simulated annealing that gave ClusteredSA its name; the growth alone stands in for it.
//
// Each tree is made for an idle network, without regard to the others: all trees may enter a
// pool by the same host. That is the weakness which §3.3 holds against them.
//
// The transfers of the N trees are ordered by the paper's min-based method: of all tree edges
// whose source has the block or is scheduled to, the one that would arrive first is committed,
// by equations 1-3, until none is left. Ties go to the lower time, origin, source, destination.
//
// Each transfer carries one block and comes after the one that brought it to its source.
// Transfers are in order of start; those of one start in the order in which they were
// committed. Start, End and Makespan are seconds by the host model.
//
// sizes is one size or one for each host of s. tree is read for Clustered only. The error
// wraps [netmap.ErrNotMeasured] if a latency or bandwidth is missing; others name the
// host, link, pool or size that is out of range.
func BroadcastTrees(s *netmap.Snapshot, tree *pools.Tree, sizes []int64, opt TreeOptions) (*plan.Plan, error) {
	const name = "broadcast-trees"
	if s == nil {
		return nil, errors.New(name + ": no snapshot")
	}
	p, err := newPlan(name, s.Names(), sizes)
	if err != nil {
		return nil, err
	}
	model, err := newHostModel(s, sizes, opt.Duplex)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	trees, err := broadcastTrees(model, p.Hosts, tree, opt.Kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	steps, err := minOrder(model, trees)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fill(p, steps)
	return p, nil
}

// broadcastTrees returns the tree of each origin.
func broadcastTrees(m *hostModel, hosts []string, tree *pools.Tree, kind TreeKind) ([]broadcastTree, error) {
	trees := make([]broadcastTree, m.n)
	switch kind {
	case Binomial:
		for origin := range trees {
			trees[origin] = newBroadcastTree(binomialTree(m.n, origin))
		}
	case Mateescu:
		all := &pools.Pool{Hosts: make([]int, m.n)}
		for i := range all.Hosts {
			all.Hosts[i] = i
		}
		growTrees(trees, m, all)
	case Clustered, "":
		if err := checkTree(tree, hosts); err != nil {
			return nil, err
		}
		growTrees(trees, m, tree.Root)
	default:
		_, err := ParseTreeKind(string(kind))
		return nil, err
	}
	return trees, nil
}

// A step is one scheduled transfer.
type step struct {
	start, end       time.Duration
	origin, src, dst int32
}

// fill turns steps, which are in the order of committing, into the transfers of p.
func fill(p *plan.Plan, steps []step) {
	// The ports of any one host only get later, so among equal starts the order of
	// committing is that of every port, and a deliverer stays before what it feeds.
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.start, b.start) })
	n := len(p.Hosts)
	brought := make([]int32, n*n) // [host*n+origin], 1 + the transfer that brings it
	// One backing array each; at 1,024 hosts there are a million transfers.
	p.Transfers = make([]plan.Transfer, len(steps))
	blocks, after := make([]plan.Block, len(steps)), make([]int, len(steps))
	var last time.Duration
	for i, st := range steps {
		blocks[i] = plan.Block{Origin: int(st.origin), Dest: plan.All}
		t := plan.Transfer{
			ID: i, Src: int(st.src), Dst: int(st.dst),
			Blocks: blocks[i : i+1 : i+1],
			Phase:  -1,
			After:  after[i:i:i],
			Start:  st.start.Seconds(), End: st.end.Seconds(),
		}
		if k := brought[t.Src*n+int(st.origin)]; k > 0 {
			after[i] = int(k - 1)
			t.After = after[i : i+1 : i+1]
		}
		brought[t.Dst*n+int(st.origin)] = int32(i + 1)
		p.Transfers[i] = t
		last = max(last, st.end)
	}
	p.Makespan = last.Seconds()
}
