// Package exchange runs plans: it moves the blocks of one collective between hosts.
//
// [Split] cuts a [plan.Plan] into one [Part] per host, small enough to be handed out
// over a slow link. On each host an [Engine] runs its part: received bytes go
// straight to their place in the caller's result, a chunk is forwarded as soon as it
// is here, synchronisations travel as tokens, every block carries a checksum from
// its origin to each destination, what is under way to a far host is bounded by a window
// (window.go), and what a broken stream had not delivered is sent again. What each lane
// carries is told while it does, with what limited it (sample.go, meter.go). The engine
// knows nothing of how the plan was made, but for links that hosts load unequally (crossing.go).
//
// Who does what in a running part: [Engine.Run] starts one goroutine per lane and
// destination, which writes, one per open stream, which reads the answers, and one that
// looks at the lanes ten times a second if somebody wants samples; the streams that peers
// open are read by the goroutines that call [Engine.Accept]. All state of a part is guarded
// by one mutex (run.mu) and nobody holds it over I/O.
//
// Place in the flow: planner → plan → Split → agents → Engine → lanes. The bytes on a
// stream are described in wire.go.
package exchange
