// Package mpic writes a plan as an MPI routine in C.
//
// [Write] turns any plan into one self-contained C99 file: a function with the
// arguments of MPI_Allgather, MPI_Allgatherv, MPI_Alltoall or MPI_Alltoallv that moves
// the blocks as the plan does, with point-to-point messages. Who runs an MPI program on
// a network that gridagent has measured gets the schedule without the daemon. The
// package is pure: the same plan gives the same bytes.
//
// Place in the flow: plan → mpic → a file for an MPI compiler. Nothing imports it but cmd.
//
// # What the routine does
//
// The file holds the schedule as tables, of messages of all ranks, and a small
// interpreter. A message is a transfer of the plan or a notice without bytes. Each rank
// posts its receives first, starts every message as soon as what it comes after is
// complete, and waits for whatever ends next (MPI_Waitsome). It serves all
// destinations at once, as the engine does, and never blocks on one message, so that an
// acyclic plan cannot deadlock, however little the library buffers. Unlike the engine it moves
// whole transfers: a relay sends on when it has received the last byte.
//
// An entry of After becomes, for transfer t that comes after a:
//
//   - nothing to send, where the source of t can see it itself: a ends there, or, with
//     [plan.SyncSender], starts there;
//   - a notice from the host that [plan.Transfer.Teller] names, otherwise. News that data have left means
//     that MPI_Isend is complete: its buffer may be used again. Short messages are complete
//     in this sense when the library has copied them;
//   - with [plan.SyncBarrier], the end of a round. The transfers of a plan are cut into rounds,
//     and MPI_Barrier is between them. Entries from one round to a later one need nothing else.
//
// Blocks of no bytes that the plan leaves out are sent directly, because the routine must
// be right for all counts and not only for those that it was scheduled for.
//
// The tables come from messages.go; the C around them is in head, interpreter, entry and check.c.tmpl.
//
// # Sources and differences
//
// Faraj & Yuan, IPDPS 2005, §5, and Faraj, Yuan & Patarasuk (journal version), §5 and §6: the routine
// generator and the sender-based, receiver-based and barrier synchronisation. Faraj,
// Patarasuk & Yuan have one for allgather. The papers do not print what theirs write. With one
// message of a machine in each phase it can be a sequence of blocking calls; ours starts
// what is free, because plans have relays and several messages at a time, and a plan that wants one
// message after the other says so in After.
package mpic
