// Package ring makes allgathers over logical rings that use no link of a switch tree twice
// at a time.
//
// Every host sends to the next on the ring, step after step, the block that it got in the
// step before. If the order of hosts follows the tree, no two of these messages share a
// directed link, and the allgather takes the time in which one host can receive all
// blocks: nothing is faster, whatever links a network has beyond its spanning tree (§1).
// [LR1] finds such a ring. [LR2] finds one on which no message crosses more than two
// switches, where there is one, and [LR3] one whose longest path is the shortest
// possible: store-and-forward switches charge for each. [Study] compares them on random
// networks.
//
// Place in the flow: from a [plan.Topology] to a plan, which the planner compares with
// others. It is pure: the same tree gives the same ring.
//
// Source: Faraj, Patarasuk & Yuan, "Bandwidth Efficient All-to-All Broadcast on Switched
// Clusters"; sections, theorems and algorithms are cited by its numbers. Its machines are
// hosts here. What it leaves open and what is different is said at [LR1], [Breakers],
// [LR3], [Allgather] and [Study].
package ring
