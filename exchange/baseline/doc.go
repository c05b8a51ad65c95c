// Package baseline holds the allgathers of other systems as plans: to compare with,
// and to fall back to.
//
// Each function is pure and takes host names in rank order and block sizes, one for
// all or one for each. They know nothing of the network ([MagPIe] knows pools), so they
// predict nothing: Start, End, Makespan and Bound are 0, and the plan simulator fills them in.
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
// Source: the descriptions in Gupta & Vadhiyar, "An Efficient MPI_Allgather for
// Grids", HPDC 2007, §2, and the papers cited there; each file names its own.
package baseline
