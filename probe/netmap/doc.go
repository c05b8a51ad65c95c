// Package netmap holds what is believed of the network between hosts.
//
// An [Estimate] describes one ordered host pair; a [Snapshot] is an immutable,
// numbered N×N set of estimates, the only thing that pools, min3 and the plan
// simulator read. A [Map] is the live form that agents keep alike; it answers for one pair
// ([Map.Lookup]) or for a group ([Map.Snapshot]). The package does no I/O, reads no clock
// and knows no keys: signing is handed in.
//
// How a measurement reaches the other hosts:
//
//	Set, Update, SetLogP   what this host measured; believed here at once (own.go)
//	Publish                a signed batch: news of weight at once, confirmations rarely
//	Start, Next, Answer    a round with another agent: news go along, then maps are compared
//	                       by a tree of hashes and each takes what it lacks (sync.go, tree.go)
//	Partners               whom to compare with: few hosts, mostly near ones
//
// What nobody measured is guessed from what is like it: [Predict] fills gaps, [Freshen]
// corrects pairs whose link has changed since. Both are for plans, and mark what they fill in.
//
// Of each reporter a map keeps the last full batch and those after it, as signed (batch.go),
// so a relay can withhold the newest and nothing else. What lies is bounded: values are
// range-checked, a reporter's rows and batches are counted, one that contradicts most of its
// counterparts gives way to them (suspects.go), and [Map.Warnings] says who.
//
// Sources: Demers et al., "Epidemic Algorithms for Replicated Database Maintenance" (PODC
// 1987) for rumours backed up by anti-entropy; van Renesse et al., "Efficient
// Reconciliation and Flow Control for Anti-Entropy Protocols" (LADIS 2008) for a version
// that rises for each reporter.
//
// Place in the flow: probe writes estimates, pools and the schedulers read snapshots.
package netmap
