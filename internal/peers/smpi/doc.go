// Package smpi asks SimGrid how long collectives take on a network of ours.
//
// SMPI, a part of SimGrid, runs unmodified MPI programs on a simulated platform and brings
// the collective algorithms of several libraries along. So it predicts two things with
// a simulator that is not ours: a plan of ours, as the MPI routine that package mpic makes of it
// ([Bench.Plan]), and what the classical algorithms take in somebody else's code
// ([Bench.Collective]). [Compare] puts plan.Simulate beside both.
//
// Place in the flow: above exchange/planner and exchange/mpic, beside internal/lab; the command in cmd
// prints the comparison. The programs smpicc and smpirun come with SimGrid (Debian: simgrid,
// libsimgrid-dev); without them [Tool] cannot be found, which is [ErrMissing].
//
// # The platform
//
// It is drawn from the grid or switch-tree file, not from a plan.Network, but should say the same:
// a link out and a link in for every host, a link for every ordered pair of sites, with the
// capacity that all flows share, and before it, if one flow gets less than that, a ceiling for each
// flow. The latency of a LAN stands between its ports; a path over the wide area has that of the
// WAN link alone, as in netmap. Loss, jitter, queues and bursts have no counterpart in SimGrid's
// flow models. A host that is alone in its site has no ports.
//
// # Two models
//
// SimGrid divides a link among flows by weights of 1/RTT, where an RTT is the latency of the
// path plus a constant S over the rate of every link on it. That is on purpose, because TCP does
// it; plan.Simulate divides evenly. With one model alone this difference could not be told from
// an error. So there are two:
//
//   - [Even] is network/model CM02 with all corrections off, no window limit, no cross traffic, and
//     with S so large that latencies do not count. Paths get ballast, links that limit nothing,
//     until their sums of 1/rate are equal: then the shares are equal too.
//   - [TCP] is LV08, SimGrid's default for TCP (Velho & Legrand, SIMUTools 2009): 13.01
//     times the latency for slow start, 97 % of the rate, weights by RTT with S = 20,537 B, acknowledgements
//     that take 5 % of the way back.
//
// In both a message waits until its receiver is ready ([TCP]: from 64 KiB on), at no cost, and a send
// is complete when the message has arrived. Neither is so in our engine; [Queued] and [InStep]
// say the same to plan.Simulate. Both leave the processor out: computation takes no time, and LogP's os and or are 0.
//
// # What is left
//
// SMPI adds 16 bytes to each message (0.024 % of 64 KiB). SimGrid pays the latency of a path first
// and lets the flow take its share of all links after that; plan.Simulate lets it take them
// at once and the bytes arrive a latency later. So a receiver's port is taken by what is still on
// its way, or not. Single transfers differ by some percent while others are on their way; over all algorithms on
// the grids in configs, whole runs differ by 0.22 % at most.
//
// # Names of algorithms
//
// SMPI's names are not ours: its allgather "ring" has rank p send its own block to p+1, p+2 …,
// which we call spreading-simple; its "spreading_simple" posts all at once, our simple; and
// the logical ring is its "NTSLR". [Counterpart] knows.
package smpi
