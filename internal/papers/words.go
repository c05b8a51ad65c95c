package main

import "fmt"

const readmeHead = `# The papers' experiments

<!-- Written by scripts/bench papers, which overwrites it. -->

Tables and figures of the papers' evaluations, repeated by ` + "`scripts/bench papers`" + `. Each page has a picture, tables with the ratio to
the bound and to the best peer, what the paper finds beside what is found here, the command, the date and the machine. The
numbers are in the JSON file beside it; no number on a page is typed, but those that a paper prints. Where our results
agree with the papers and where not: [AGREEMENT.md](AGREEMENT.md).
`

const readmeTail = `
## What is not here

- Worked examples, and figures and tables that are algorithms and not measurements: they are golden tests of the
  packages (` + "`go test ./exchange/... ./min3`" + `).
- Tam & Wang, §4.3: the message length at which an exchange stops on an input-buffered switch. Head-of-line
  blocking inside a switch is not emulated.
- Results of real processes and of MPI libraries, *lab*, stand on the pages of the networks on which they ran. They are those of
  peers.json, which ` + "`scripts/bench peers`" + ` writes, and ` + "`scripts/bench papers`" + ` before all else.
`

const agreementHead = `# Where our results agree with the papers, and where not

<!-- Written by scripts/bench papers, which overwrites it. -->

*Agrees*, *partly* and *differs* are computed from the numbers by the rules in internal/papers: mostly whether what the
paper says holds at all sizes, at some, or at none. Sources: *model* is the paper's own cost model, *simulated* our flow
simulator, *emulated* our engines over real QUIC on an emulated network in virtual time, *timed* this machine's clock.

`

// why explains findings, where there is an explanation. It holds no measured numbers.
var why = map[string]string{
	"min3-table3": `Beside the faster machine it is the algorithm: the paper searches again for every entry that a step touches, ours keeps one
best offer for each destination and makes the same plan (package min3).`,

	"min3-fig8": `The models gain more by Min3 than the paper measured: in them every pair of hosts has a link to itself, so nothing
limits how many transfers cross at a time. Where a link between sites is one pipe for all, the clustered trees, which bring each
block into each site once as well, do as well as Min3; its schedule counts on rates that its transfers then share. *min3
shared links* is our extension for such links (package min3), and the fastest there. The clustered and Mateescu's trees are
what the papers tell of them, see docs/papers.md.`,

	"min3-fig9": `In the models blocks move whole. Our engine sends chunks on as they come, so a coordinator of MagPIe begins with the block that it
has from the start, and its transfers over the wide area begin as early as others'. They then wait for what is gathered; few
at a time they stay. Mateescu's transfers are many because each origin sends to every host itself, over and over through the same links.`,

	"min3-fig10": `On two sites there is little to choose: Min3 and the clustered trees bring each block over the one link once, and differ by little.`,

	"min3-fig11": `The paper's host model has one port, which serves one block at a time, and knows no difference between these schedules. On a network
there is one: ties go to the lowest rank, so that one host forwards most blocks and its port carries what the ring spreads over
all. With shared links Min3 spreads what it forwards over the hosts, and the planner (auto) takes that one here.`,

	"exchange-fig2": `The paper's rounds cost its hosts processor time, which the emulation does not charge; what is left is the latency of a round.`,

	"rings-fig9": `LAM/MPI: where ranks are scattered over switches, as we read topologies (b) to (d), a binomial tree in rank order crosses the
cables between them again and again. The paper's LAM/MPI did not suffer; its trees or its numbering must be others.`,

	"rings-table1": `The order is the paper's, the gap is not: here a switch on the way adds the time of one packet, once for each step's
first chunk, since chunks stream. On the paper's hosts a longer path cost more than that, and made no steady
difference from size to size either.`,

	"aapc05-fig6": aapcWhy, "aapc05-fig7": aapcWhy, "aapc05-fig8": aapcWhy,

	"aapc-fig7": aapcWhy,

	"aapc-fig8": `A notice by the sender goes out earlier, at once with its data; ours from the receiver waits for all data and costs a latency
more, which small messages feel. But a host that is ahead begins to send to one that still receives, and holds it up. On one switch
that costs little; where cables are shared packets are lost by it, see the tables, and which of both is better changes from size to size.`,

	"aapc-fig10": `On one switch machines that send one message after the other, in the order of the phases, hardly meet: there is little left for
a synchronisation to gain. Where cables are shared, the fewer phases a block has the fewer packets are lost, see the
tables, but each synchronisation is waited for, and partial synchronisation does both, lose and wait.`,

	"aapc-fig11": `A barrier every four phases does not keep the messages of those four apart. With nothing in between they lose packets, see the
tables, and whoever has lost some holds up all others at the next barrier. With small messages a synchronisation by the sender
in between is quicker than a barrier for each phase. On our engine, where a barrier is a round of notices and no MPI call, one after each phase is cheap
for large messages.`,

	"aapc-fig13": `By the sender a message is let go when the one before it has left its source, and meets in the queues what is still on its way;
packets are lost by it, see the tables. After a barrier nothing is on its way. With large messages that is worth more on our engine than
what a barrier costs, if there is one after each phase: between barriers that are further apart messages meet as before.`,

	"aapc-fig9": `The simulator divides links ideally: exchanges without synchronisation lose no packets in it, only what two messages on one link
take longer. In the emulation they lose packets as well, see the tables.`,
}

// aapcWhy is about the engine that runs all alltoalls here, and the switches.
var aapcWhy = fmt.Sprintf(`All contenders run on our engine, over QUIC with a window for every pair. In the simulator contention costs nothing but its share,
so that a schedule without contention has nothing to gain there, and pays for its synchronisation. In the emulation the ports of
switches overflow, with %d packets each as small switches have them, wherever several hosts send to one, or through one cable, at a time:
so posting everything at once, and send-receives that are not kept in step, lose packets, as the paper finds. Ports that are deeper hide
this on one switch, where all that is under way fits into them, and not where cables are shared: [switches.md](../switches.md) has
both depths. A loss weighs the more the shorter an exchange is, so that a schedule can gain with small messages here, too; in the paper
it gains with large ones.`, portPackets)
