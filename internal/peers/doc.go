// Command peers times the collectives of MPI libraries and of gridagent side by side, over the same
// links, in one run: MPICH's and Open MPI's allgather and alltoall by their own choice and by every
// algorithm that they let one force, routines that gridagent plan -o mpi-c has written, and
// gridagent bench against live agents. It makes a lab (gridagent lab), checks its links with
// iperf3, runs one after the other, and takes the lab down. scripts/peers installs what is
// needed and starts it.
//
// Place in the flow: above the binary, which it runs as a user would; internal/papers reads its
// records.
//
// # How a run is timed
//
// As gridagent bench does it: for each size warm-up operations, then iterations of barrier, clock,
// operation, clock, and a check of every byte. An iteration takes as long as its slowest rank.
// Each iteration has other data. There is one rank on each host. MPI programs run bench/mpibench.c.
//
// All ranks begin at the same moment, of MPI programs as of gridagent: the hosts of a lab share a clock. Else an MPI program's rank begins when it
// leaves the barrier, up to the longest way between sites after another one, and finds bytes that have been on their way for as long: its times are shorter than the
// operation by up to that, below what the links can carry. --together=false does that, with both.
//
// MPI programs have two small libraries preloaded. bench/idle.c: ranks ask for news in a loop without a
// pause, and dozens of them would leave no time for the emulation of the links; now they sleep between
// questions, at most 1 ms where nothing wakes them. bench/congestion.c sets TCP's congestion control socket by
// socket, because a namespace as a whole can only have what the machine allows for all.
//
// An algorithm runs only where the library really uses it: MPICH is told to refuse instead of taking
// another one, and for Open MPI the cases are known in which it does that ([applies]).
//
// # The bound
//
// The least time that any schedule could take over the links as the file declares them: of
// [plan.Network.AllgatherBound] and [plan.Network.AlltoallBound], one pool a site, latency and
// headers left out. Rates of a lab count IP bytes, so a ratio of 1.036 is what TCP can reach with 1448
// bytes of payload in a packet of 1500.
//
// # Records
//
// With -o json standard output has one JSON object a line: a [Record] for each size of each run,
// a [LinkCheck] for each link that iperf3 has measured. The field tool tells them apart.
// Records of runs that failed have error, and no times. cpu_busy says how much of the machine was in use
// meanwhile, by whomever: near 1 the time may be the machine's and not the links'; late_share says whether packets between sites came late for
// that. agents is what the agents took: CPU time, and memory while the operations ran and behind them, from /proc.
package main
