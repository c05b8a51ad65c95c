package main

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/min3"
)

// A contender makes the plans of one line in a figure.
type contender struct {
	collective plan.Collective
	algorithm  string
	variant    string
	peer       bool // what others do; the rest is the paper's own proposal
	make       func(a *arena, size int64) (*plan.Plan, error)
}

// name is that of the contender's records.
func (c *contender) name() string {
	return (&Record{Algorithm: c.algorithm, Variant: c.variant}).name()
}

// contenderOf finds a contender by collective and name.
func contenderOf(c plan.Collective, name string) (*contender, error) {
	i := slices.IndexFunc(contenders, func(x contender) bool { return x.collective == c && x.name() == name })
	if i < 0 {
		return nil, fmt.Errorf("no contender %q for %s", name, c)
	}
	return &contenders[i], nil
}

// isPeer reports whether a record is of something that a paper, or we, compare with.
func (r *Record) isPeer() bool {
	if r.Source == Lab {
		return r.Tool != "gridagent"
	}
	x, err := contenderOf(plan.Collective(r.Collective), r.name())
	return err == nil && x.peer
}

// contenders are all lines. In the emulation they run in this order, those first whose messages
// do not meet.
var contenders = slices.Concat(aapcSchemes(), alltoallPeers, shuffles, rings, grids, allgatherPeers)

// aapcSchemes are the schemes of table 5 of Faraj, Yuan & Patarasuk, with the block sizes of
// their figures.
func aapcSchemes() []contender {
	var list []contender
	for _, s := range []struct {
		name string
		opt  phase.Options
	}{
		{"receiver all", phase.Options{Sync: phase.Receiver}},
		{"sender all", phase.Options{Sync: phase.Sender}},
		{"barrier all", phase.Options{Sync: phase.Barrier}},
		{"barrier partial & sender (4)", phase.Options{Sync: phase.Barrier, Block: 4, Within: phase.Sender}},
		{"barrier partial & sender (8)", phase.Options{Sync: phase.Barrier, Block: 8, Within: phase.Sender}},
		{"barrier partial & sender (16)", phase.Options{Sync: phase.Barrier, Block: 16, Within: phase.Sender}},
		{"barrier partial & receiver (4)", phase.Options{Sync: phase.Barrier, Block: 4, Within: phase.Receiver}},
		{"barrier partial & none (4)", phase.Options{Sync: phase.Barrier, Block: 4, Within: phase.Order}},
		{"receiver partial (8)", phase.Options{Sync: phase.Receiver, Block: 8}}, // all of a block at once: cannot have Order
		{"sender partial (2)", phase.Options{Sync: phase.Sender, Block: 2, Within: phase.Order}},
		{"sender partial (8)", phase.Options{Sync: phase.Sender, Block: 8, Within: phase.Order}},
		{"sender partial (16)", phase.Options{Sync: phase.Sender, Block: 16, Within: phase.Order}},
		{"dummy", phase.Options{Sync: phase.Dummy}},
		{"no-sync", phase.Options{Sync: phase.Order}},
	} {
		list = append(list, contender{plan.Alltoall, "aapc", s.name, false, func(a *arena, size int64) (*plan.Plan, error) {
			return phase.Schedule(a.topology, plan.AlltoallSizes{Uniform: size}, s.opt)
		}})
	}
	return list
}

// alltoallPeers are what the AAPC papers compare with, as IPDPS 2005, §6, describes them.
var alltoallPeers = []contender{
	// Up to 256 bytes Bruck's; up to 32 KiB all sends posted at once, to the next rank first; above,
	// a loop of send-receives, with XOR where the number of hosts is a power of two.
	{plan.Alltoall, "mpich", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		hosts, sizes := a.problem.Hosts(), plan.AlltoallSizes{Uniform: size}
		switch {
		case size <= 256:
			return baseline.AlltoallBruck(hosts, sizes)
		case size <= 32<<10:
			return baseline.AlltoallSpreadingSimple(hosts, sizes)
		}
		return baseline.AlltoallPairwise(hosts, sizes)
	}},
	// All sends posted at once, to rank 0 first.
	{plan.Alltoall, "lam", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		return baseline.AlltoallSimple(a.problem.Hosts(), plan.AlltoallSizes{Uniform: size})
	}},
}

// shuffles are the exchanges of Tam & Wang, §3, group shuffle with the fan-out of their §4.3.
var shuffles = []contender{
	{plan.Alltoall, "shift", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		return shuffle.Shift(a.problem.Hosts(), plan.AlltoallSizes{Uniform: size})
	}},
	{plan.Alltoall, "pairwise", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		return shuffle.Pairwise(a.problem.Hosts(), plan.AlltoallSizes{Uniform: size})
	}},
	{plan.Alltoall, "group-shuffle", "ω=5", false, func(a *arena, size int64) (*plan.Plan, error) {
		return shuffle.Group(a.problem.Hosts(), plan.AlltoallSizes{Uniform: size}, groupFanout)
	}},
	{plan.Alltoall, "sync-shuffle", "", false, func(a *arena, size int64) (*plan.Plan, error) {
		return shuffle.Synchronous(a.problem.Hosts(), plan.AlltoallSizes{Uniform: size})
	}},
}

// groupFanout is ω of Tam & Wang, §4.3.
const groupFanout = 5

// rings are the allgathers of Faraj, Patarasuk & Yuan.
var rings = []contender{ringOf(ring.KindLR1), ringOf(ring.KindLR2), ringOf(ring.KindLR3)}

func ringOf(kind ring.Kind) contender {
	return contender{plan.Allgather, string(kind), "", false, func(a *arena, size int64) (*plan.Plan, error) {
		return ring.Allgather(a.topology, kind, []int64{size})
	}}
}

// grids are the allgathers of Gupta & Vadhiyar, §6, for both of their host models.
var grids = []contender{
	min3Of("", min3.Options{Duplex: min3.Full}),
	min3Of("half", min3.Options{Duplex: min3.Half}),
	{plan.Allgather, "min3", "shared links", false, func(a *arena, size int64) (*plan.Plan, error) {
		p := a.sized(plan.Allgather, size)
		p.Duplex, p.Links = min3.Full, min3.Shared
		return made3(p)
	}},
	treesOf("clustered", "", baseline.Clustered, plan.FullDuplex),
	treesOf("clustered", "half", baseline.Clustered, plan.HalfDuplex),
	treesOf("mateescu", "", baseline.Mateescu, plan.FullDuplex),
	treesOf("mateescu", "half", baseline.Mateescu, plan.HalfDuplex),
	{plan.Allgather, "magpie", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		return baseline.MagPIe(a.problem.Hosts(), []int64{size}, a.problem.Clusters())
	}},
	{plan.Allgather, "mpich-g2", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		return baseline.MPICHG2(a.problem.Hosts(), []int64{size}, a.problem.Tree)
	}},
}

func min3Of(variant string, opt min3.Options) contender {
	return contender{plan.Allgather, "min3", variant, false, func(a *arena, size int64) (*plan.Plan, error) {
		return min3.Schedule(a.problem.Snapshot, a.problem.Tree, []int64{size}, opt)
	}}
}

func treesOf(name, variant string, kind baseline.TreeKind, duplex plan.Duplex) contender {
	return contender{plan.Allgather, name, variant, true, func(a *arena, size int64) (*plan.Plan, error) {
		return baseline.BroadcastTrees(a.problem.Snapshot, a.problem.Tree, []int64{size}, baseline.TreeOptions{Kind: kind, Duplex: duplex})
	}}
}

// allgatherPeers are the allgathers of MPI libraries of the papers' time.
var allgatherPeers = []contender{
	{plan.Allgather, "spreading-simple", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		return baseline.SpreadingSimple(a.problem.Hosts(), []int64{size})
	}},
	// By the bytes that a host ends with: under 512 KiB recursive doubling where the number of
	// hosts is a power of two, under 80 KiB Bruck's where it is not, else a ring in rank order
	// (Thakur, Rabenseifner & Gropp). With 16 and 32 hosts it changes where Faraj, Patarasuk
	// & Yuan, §5, say: at 32 and at 16 KiB.
	{plan.Allgather, "mpich", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		hosts, sizes := a.problem.Hosts(), []int64{size}
		n := len(hosts)
		switch total := int64(n) * size; {
		case n&(n-1) == 0 && total < 512<<10:
			return baseline.RecursiveDoubling(hosts, sizes)
		case n&(n-1) != 0 && total < 80<<10:
			return baseline.Bruck(hosts, sizes)
		}
		return baseline.Ring(hosts, sizes)
	}},
	// A gather to rank 0 and a broadcast along a binomial tree: MagPIe's algorithm with one pool.
	{plan.Allgather, "lam", "", true, func(a *arena, size int64) (*plan.Plan, error) {
		hosts := a.problem.Hosts()
		all := make([]int, len(hosts))
		for h := range all {
			all[h] = h
		}
		return baseline.MagPIe(hosts, []int64{size}, [][]int{all})
	}},
}
