// Package pools groups the hosts of a grid into pools of similar bandwidth.
//
// [Build] turns a [netmap.Snapshot] into a [Tree]: the root holds all hosts, and each pool
// is split where a higher bandwidth threshold takes it apart, wide-area links first. min3
// and the planners schedule level by level over that tree, so that a block enters each pool
// once. The package is pure: the same snapshot and [Config] give the same tree, whatever
// the order of the hosts.
//
// [Build] is for one map. A live map never stands still: a [Tracker] follows it with a tree
// that mostly does, numbers its trees by epochs and says why each came about. Between a
// reading and a new tree stand five gates (an average, a dead band, the median of like
// pairs, a margin, a dwell: docs/pools.md); time is handed in. [Misplaced] finds hosts that
// measure as if they stood in another site than their label says. The tree reads no labels.
//
// Place in the flow: reads snapshots, feeds min3, the ring, phase and shuffle planners, and
// the verifier of package plan.
//
// Source: Gupta & Vadhiyar, HPDC 2007, §5.1. Differences from the paper, which the text of
// [Thresholds], [Component] and [Average] argues: a link belongs to a threshold if it
// reaches the low end of the band, not the top; a pool is by default a connected
// component; levels at which nothing splits are left out. What Tracker does is our own, but
// for the shrinkage towards a class's median (Gao & Bruce, Statistica Sinica 7, 1997).
package pools
