// Package shuffle schedules the complete exchange (alltoall) of hosts on one
// non-blocking switch: shift, pairwise, synchronous shuffle and group shuffle.
//
// [Shift] and [Pairwise] run in rounds: in each a host sends one message and receives
// one. [Synchronous] sends all messages of a host at once, packet by packet in turn.
// [Group] stands between: rounds of at most so many partners, shuffled inside a
// round. [CostModel] predicts all four for a homogeneous cluster. Every message goes
// straight from its origin to its destination, as one transfer, also one of no bytes.
// The package is pure: the same hosts and sizes give the same plan.
//
// Place in the flow: beside phase and ring; the planner compares the plans, the engine
// runs them. The functions know nothing of the network and predict no times of
// transfers; the plan simulator does.
//
// # Slots, rounds, and what the plan says
//
// The paper orders packets: in slot i of a cycle every host sends one packet to its
// i-th partner, cycle after cycle until all packets of the messages are gone. In no
// slot does a host send, or receive, two. A plan orders transfers of whole blocks, so
// it says this in two parts:
//
//   - Phase of a transfer is its slot, from 0. Verified against a topology of one
//     switch, a plan is free of contention: that is the paper's claim for each slot.
//   - After holds a host's sends and receives of its round before, which the loops of
//     the paper end with: sends when their data have left, receives when they have
//     arrived ([plan.SyncSender]). Transfers that a host sends in one round have the
//     same After and run side by side: their chunks interleave. With a fan-out of w,
//     round r covers slots r·w … r·w+w−1.
//
// Where a round is one slot, as in shift and pairwise, phases are rounds. Elsewhere the
// phases of a round are not one after the other: they take turns.
//
// Why the turns themselves are not in the plan: the engine serves all destinations at
// once, chunk by chunk, and the simulator divides ports evenly, which is the same for
// packets of no size. A plan of chunks would be k times as large, and edges between
// the chunks would be the lock step that the paper avoids ("no explicit
// synchronization"). So nobody enforces a slot here, as nobody does in the paper: when
// hosts drift apart, slots collide at a receiver for a moment. What the plan does enforce
// is fan-out: a host sends to no more than w others at once. How many send to a host
// at once has that bound only as long as hosts keep in step.
//
// # Differences from the paper
//
//   - Rounds of the edge colouring are 1 … χ′. Group shuffle as printed runs ⌈(p−1)/ω⌉
//     full groups: it meets partners again where that goes past round χ′, and misses round
//     p where p is odd and ω divides p−1. Here there are ⌈χ′/ω⌉ groups, the last one ends
//     at χ′, and an idle slot stays empty.
//   - Pairwise costs what shift does for even p only; see [CostModel.Pairwise].
//
// Source: Tam & Wang, "Efficient Scheduling of Complete Exchange on Clusters", §2 and §3.
package shuffle
