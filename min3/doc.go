// Package min3 schedules an allgather over a pool tree by the Min³ greedy.
//
// [Schedule] takes a [netmap.Snapshot], a [pools.Tree] and the block sizes and
// returns a [plan.Plan] in which every block enters each sub-pool of each pool
// exactly once, and which never asks more of a host's port than the half- or
// full-duplex model allows. It is pure: no clock, no randomness, no goroutine, and
// times are whole ticks, so the same snapshot and tree give the same plan. A tick is a
// picosecond, or a nanosecond where a schedule could take days.
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
//
// # Shared links
//
// The paper lets any number of transfers cross between two pools at full speed each. With
// [Shared] the transfers between two leaf pools share one link, as in plan.Simulate and the
// bound: the largest capacity C of its host pairs, of which one flow gets r at most. The
// schedule is made in three steps, which are ours:
//
//   - Routes. Every block gets a tree over the leaf pools, and blocks are moved from full
//     links to freer ones while the worst of the times that a move touches falls (shared_routes.go).
//   - Wide-area transfers, each in one of the ⌈C/r⌉ slots of its link, by earliest start
//     and longest way ahead (shared_wide.go). They spread over the hosts of a pool.
//   - The levels of the leaf pools, by the paper's greedy, in the time that the wide-area
//     transfers leave the ports. Of equal offers the one of the source that has sent the
//     least goes first, and links of a pool that are nearly equal are taken for equal:
//     with the paper's choices one host may send all blocks of its pool, at once.
//
// A block enters every leaf pool once. The pools above the leaves mean nothing here: a
// block may enter one of them several times, over several links, and leave it and come
// back, since the way round through another site is what the freer links are for.
//
// Ports are still those of equations 2 and 3, and predicted times are of whole blocks; a
// host that receives a slow block for seconds takes no other meanwhile. The engine streams
// chunks and serves all pairs at once, so its exchange is mostly faster than the makespan.
package min3
