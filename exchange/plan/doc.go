// Package plan is the hinge of gridagent: what a schedule is.
//
// A [Plan] lists the transfers of one collective with their order, data
// dependencies and synchronisations. Every algorithm returns one, [Verify] proves
// any, [Simulate] predicts any, and package exchange runs any. The package does no
// I/O and knows nothing of how any algorithm works.
//
// Place in the flow: ground floor; min3, ring, phase, shuffle and baseline produce
// plans, the planner compares them, the engine runs them.
package plan
