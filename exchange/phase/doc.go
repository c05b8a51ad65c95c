// Package phase schedules all-to-all personalised communication (AAPC) on a tree of
// switches, in phases without contention.
//
// [Schedule] takes a [plan.Topology] and returns a plan in which no two messages of a
// phase share a directed link, and which has as many phases as messages cross the most
// loaded link ([Load]): none has fewer. Synchronisations, as edges of the plan, keep
// messages of different phases apart where they would meet. [Analyze] shows the root
// and the subtrees that the schedule is built on.
//
// Place in the flow: topology → phase → plan → planner, engine. The package is pure.
//
// # Where each step of the paper is
//
//	root.go      identifying the root, load, subtrees       §3, §4.1, figure 2
//	global.go    which phases T_i → T_j gets                §4.2, figure 3
//	patterns.go  broadcast and rotate pattern, table 3      §4.3.1, tables 1 and 3
//	assign.go    the six steps; 1, 2, 4, 6 in full          §4.3.3, figure 4
//	local.go     steps 3 and 5                              §4.3.2, table 2
//	schedule.go  all of it, as a plan
//	sync.go      the schemes of synchronisation             §5, table 5
//	pairwise.go  which messages must wait for which         §5
//	reduce.go    without the redundant ones                 §5
//	dummy.go     dummy communications                       §5
//	tuned.go     which synchronisation, by size and topology, and its lead: ours
//
// # What an edge means here
//
// The plan has one transfer for each message, also for one of no bytes, listed by phase.
// After holds synchronisations only, for an alltoall without relays has no data
// dependencies, and Sync says of which kind they are; a transfer with an empty After has
// no Sync. For a in After of b:
//
//   - sender: b starts when the data of a have left a's source. The news is a message
//     from the source of a to that of b.
//   - receiver: b starts when the data of a have arrived. The news is a message from
//     the destination of a to the source of b.
//   - receiver with a lead: b starts when all of a but the lead has arrived; and one of a's
//     own source, when a has left it. This is ours: the order is that of receiver, and the way of
//     the news costs nothing.
//   - barrier: b starts when a, and with it everything in a's phase or block of phases,
//     has arrived; with a lead, as above, all of it but the lead.
//   - dummy: b starts when a has left its source; see dummy.go.
//
// The edges of [Order] say sender: they are between messages of one source.
//
// The plan itself only promises After in the strictest sense, complete. Who runs it may
// read "sender" and "dummy" as above and gains an overlap.
//
// A machine's own link is a link. Two messages of one source contend, and so do two to one
// destination: the order of a machine's sends is in After like every other, because nothing
// else in a plan gives it. An executor that sends one thing at a time may skip the
// edges between transfers of one source. With [None], and inside a block of phases without [Order], there
// is no such order: phases are then nothing but the order in which transfers are listed.
//
// # Sources and differences
//
// Faraj, Yuan & Patarasuk, "A Message Scheduling Scheme for All-to-all Personalized
// Communication on Ethernet Switched Clusters" (journal version; sections are cited
// from it), and Faraj & Yuan, IPDPS 2005 (conference version). Where they leave
// something open or contradict themselves:
//
//   - Switch trees may have several roots. Ours is the one that the process of §4.1
//     ends at, with equal halves told apart by rank 0 (root.go).
//   - One machine has no phase and two have one.
//   - The journal's table 4 swaps the receivers of phases 2 and 3 in T_1 → T_0 against its
//     own table 3. We follow table 3.
//   - In the paper's no-sync scheme, and inside its blocks, a machine still sends one message after the other. In a
//     plan that is a synchronisation, of the kind sender, with itself: [Order]. [None] leaves After empty, and a
//     queue for each destination in the order of phases is all that is left. Partial
//     synchronisation by the receiver cannot have it: its edges say receiver.
//   - Partial synchronisation as the paper has it does not order all messages of
//     different blocks that contend: Options.Strict does.
//   - The dependence graph is built and reduced link by link, message by message, each
//     with O(|M|) work for every link of its path, instead of O(|M|⁴·|S|²) and O(|M|⁶).
package phase
