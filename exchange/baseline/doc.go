// Package baseline holds what other systems do, as plans: to compare with, and to fall
// back to.
//
// Each function is pure and takes block sizes, one for all or one for each. The allgathers:
//
//   - [Simple], [SpreadingSimple], [Ring], [NeighbourExchange], [RecursiveDoubling] and
//     [Bruck] know ranks only;
//   - [MagPIe] and [MPICHG2] go through coordinators of pools: they know a partition and
//     a pool tree;
//   - [BroadcastTrees] makes N broadcast trees from measured costs and orders their
//     transfers by a host model.
//
// The baselines for alltoall live here too; their names begin with Alltoall. Those that know
// ranks or pools predict nothing: Start, End, Makespan and Bound are 0, and the plan simulator
// fills them in. BroadcastTrees fills in all but Bound, by its host model.
//
// Place in the flow: beside min3; the planner compares their plans with others.
//
// # What an edge means here
//
// After of a transfer holds
//
//   - the transfers that brought its blocks to its source (data), and
//   - the transfers of its source's iteration before, sent and received, where the
//     algorithm is a loop of blocking send-receives (then Sync is "sender").
//
// Phase is −1: an iteration of these loops is not free of contention on a real
// network, which is what a phase promises. No host receives a block twice.
//
// BroadcastTrees has data edges only, as min3 has: its order is the order of the plan, and a
// host that may send two blocks at once by the model does.
//
// # Sources
//
// The descriptions in Gupta & Vadhiyar, "An Efficient MPI_Allgather for Grids", HPDC 2007, §2
// and §6, and the papers cited there; each file names its own. What the descriptions leave open
// is said with each function. Neither they nor the papers on switched clusters name a pairwise
// allgather: pairwise exchange is an alltoall.
package baseline
