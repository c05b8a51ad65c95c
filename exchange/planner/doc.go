// Package planner turns a collective to be done into a plan: it knows every algorithm
// by name, bounds and simulates what they return, and chooses.
//
// A [Problem] is one allgather over the hosts of a snapshot. [Named] finds one
// algorithm, [Allgathers] lists all, [Schedule] makes the plan of one and says what
// the network model expects of it.
//
// Place in the flow: above min3 and baseline, under the agent and the commands plan
// and simulate. It is pure.
package planner
