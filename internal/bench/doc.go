// Package bench measures a collective the way that users of MPI know it.
//
// [Run] is what every rank of a group runs. For each size there are some operations to warm
// up, and then the iterations: the ranks meet, each stops the time of its own call, and looks
// at every byte that it got. An iteration takes as long as its slowest rank. After each one
// the ranks share what they have seen, by an allgather of the group itself: so all of them
// come to the same [Report], or end with the same error.
//
// The ranks meet by an allgather of nothing, by a plan without transfers. It returns when
// the group's coordinator has heard from all ranks and told all hosts to begin, which they do
// at about the same time, as they do in any operation; no data is waited for.
//
// What blocks hold is in pattern.go: a block from another rank, for another rank, of an
// earlier operation, or at another place in the block is always noticed, and named.
//
// Place in the flow: above agent/client; the command bench prints what it returns. The way of
// measuring is that of the OSU micro-benchmarks, the figure Mbps that of nccl-tests
// (PERFORMANCE.md there: bus bandwidth).
package bench
