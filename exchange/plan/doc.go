// Package plan is the hinge of gridagent: what a schedule is.
//
// A [Plan] lists the transfers of one collective with their order, data
// dependencies and synchronisations. Every algorithm returns one, [Verify] proves
// any, [Simulate] predicts any, and package exchange runs any. [AllgatherBound] is
// the yardstick: the least time that any schedule could take. The package does no
// I/O and knows nothing of how any algorithm works; it knows what a collective
// means, who starts with which block and who must end with it.
//
// Beside the plan stand the two descriptions of a network that plans are judged
// against: a [Topology] (the switches of one cluster, for contention) and a
// [Network] (rates of ports, pipes and flows, derived from a [netmap.Snapshot], for
// time). Plans and topologies are read from files of any origin: [Read] and
// [ReadTopology] refuse what is malformed with file, line and reason, so that
// nothing behind them needs to be afraid of an index.
//
// Place in the flow: ground floor; min3, ring, phase, shuffle and baseline produce
// plans, the planner compares them, the engine runs them.
//
// Sources: host-port rules from Gupta & Vadhiyar, HPDC 2007, §4; phases and their
// contention from Faraj & Yuan, IPDPS 2005, §2.
package plan
