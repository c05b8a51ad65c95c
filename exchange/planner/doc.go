// Package planner turns a collective to be done into a plan: it knows every algorithm
// by name, bounds and simulates what they return, and chooses.
//
// A [Problem] is one allgather or alltoall over the hosts of a grid or of a switch tree.
// [Algorithms] lists what there is for a collective, [Named] finds one, [Schedule]
// makes its plan and says what the network model expects of it, and [Choose] takes
// the best of all.
//
// Place in the flow: above min3, ring, phase, shuffle and baseline, under the agent and
// the commands plan and simulate. It is pure.
package planner
