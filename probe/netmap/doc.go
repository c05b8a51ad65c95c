// Package netmap holds what is believed of the network between hosts.
//
// An [Estimate] describes one ordered host pair; a [Snapshot] is an immutable,
// numbered N×N set of estimates, the only thing that pools, min3 and the plan
// simulator read. A [Map] is the live, mergeable form that agents keep and
// exchange rows of. The package does no I/O and reads no clock.
//
// Place in the flow: probe writes estimates, pools and the schedulers read snapshots.
package netmap
