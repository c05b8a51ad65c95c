package main

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
more, which small messages feel. With large messages a host that is ahead begins to send to one that still receives, and holds
it up; few packets are lost by it, see the tables.`,

	"aapc-fig10": `Where no cable is shared the order of phases gains nothing on our engine, which divides a host's port evenly by itself. Where
cables are shared, blocks of phases keep several messages under way at a time; how many are best changes with the size.`,

	"aapc-fig11": `With a barrier every few phases no more messages are under way than those phases have, which spares the queues; within the four
phases a pair-wise synchronisation then keeps links free of contention at less cost than a barrier for each. On our engine, where a
barrier is a round of notices and no MPI call, that can pay.`,

	"aapc-fig13": `By the sender lets hosts drift apart: who is ahead sends to one that still receives, and holds it up further. Barriers bring all
hosts back in step, which with large messages is worth more on our engine than what they cost.`,

	"aapc-fig9": `The simulator divides links ideally, so that exchanges without synchronisation lose nothing in it. In the emulation they
lose packets, see the tables.`,
}

// aapcWhy is about the engine that runs all alltoalls here.
const aapcWhy = `All contenders run on our engine, which serves all destinations of a host at once, over QUIC with a window for every pair. Posting
everything at once is much less harmful there than with the TCP of the paper's time, and a synchronisation costs a latency
of its own; in the simulator contention costs nothing but its share. So the advantage of a schedule without
contention is smaller here than in the paper, and shows most where many flows share a cable and queues overflow.`
