// Package group forms the groups of client ranks and runs their collectives.
//
// Three parts talk by messages over streams between agents:
//
//   - the directory of a job, on the host that every agent computes from the job's
//     name, brings the ranks together and hands out the roster, then forgets it;
//   - the coordinator, on the host of rank 0, collects what each rank wants, has one
//     plan made from one snapshot or takes the one that ranks have brought, hands out the
//     parts, and is the only one that declares a rank lost: so every rank sees the same error;
//   - the member, on every host that carries ranks, holds the ranks' inputs and
//     results and lets the engine run the host's part.
//
// What ranks contribute to small operations travels between the members at once, over a tree
// that comes with the roster, and needs no plan (tree.go; docs/design/operations.md), between sites by the shortest ways (via.go). Inside one site they go in
// rounds (rounds.go), straight (straight.go) or, the blocks of alltoalls, in hops (hops.go). Operations that come again go by a plan that hosts have
// kept (standing.go, ahead.go), small ones by one that their coordinator has offered (offers.go).
//
// Messages are JSON (message.go), but what is said in each operation, where all hosts know the short form (short.go).
//
// A plan is over hosts. In an alltoall, all that the ranks of one host have for those of
// another is one block of it; rooms (room.go) say where its pieces lie.
//
// The package decides nothing about schedules and moves no other payload: planning and the
// exchange itself are handed in ([Config]).
//
// Place in the flow: between the local API of package agent and planner and exchange.
package group
