// Package min3 schedules an allgather over a pool tree by the Min³ greedy.
//
// [Schedule] takes a [netmap.Snapshot], a [pools.Tree] and the block sizes and
// returns a [plan.Plan] in which every block enters each sub-pool of each pool
// exactly once, and which never asks more of a host's port than the half- or
// full-duplex model allows. It is pure: no clock, no randomness, no goroutine, and
// times are whole nanoseconds, so the same snapshot and tree give the same plan.
//
// Place in the flow: netmap and pools are above, the planner and the engine below.
//
// Source: Gupta & Vadhiyar, "An Efficient MPI_Allgather for Grids", HPDC 2007,
// §4 (equations 1-3) and §5.2-5.3 (Figures 3-7), with these mends:
//
//   - Equation 3 starts a transfer without asking whether the sender has the data
//     yet. Here the start is also at least the arrival at the sender. Equation 2
//     implies it, because receiving occupies the one port until the data is in.
//   - Figure 5, lines 14, 20 and 21, update the entry that was scheduled.
//   - Figure 7 keeps what its recursive calls return.
//   - Ties, which the paper leaves open, go to the lower time, data index, pool
//     index, source, destination. Sub-pools are numbered by their lowest host,
//     whatever the order in which the tree lists them.
//
// # How it avoids the paper's cost
//
// The paper keeps MinTime for each (data, pool) and searches sources × hosts again
// for each entry that a step touches. A transfer s→r of data d ends at
//
//	max(link[s,r], send[s], recv[r], arrival[d,s]) + T(s,r,size d)
//
// and of these only the last two terms know d. So this package keeps one best offer
// for each destination host instead, and finds the best d of a pair (s,r) as the
// first bit of "s has it, r's pool lacks it" in order of size. Ports and links only
// get later, so an old best offer is a lower bound: it is checked in O(1) when it
// reaches the front, and its column is searched again only if it no longer holds.
// The one thing that lowers an offer is a new source, which is compared when it
// appears. A step costs O(hosts of the pool), and as much again for each column that
// turns out stale. oracle_test.go holds the literal algorithm; the plans are equal
// transfer for transfer.
package min3
