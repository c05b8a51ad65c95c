// Command papers repeats the experiments of the papers and writes docs/results.
//
// Every figure and table of the papers' evaluations that can be run here is one row of the
// table in experiment.go and one file of code. A row says which plans it needs on which
// networks, and turns what was measured into a picture, tables and findings. There are four
// sources of times, and a [Record] says which one it comes from:
//
//   - simulated: [plan.Simulate], flows that share links ideally, in chunks as the engine
//     sends them;
//   - model: the paper's own cost model, [plan.SimulatePorts] or [shuffle.CostModel];
//   - emulated: the real engines over real QUIC on the packets of internal/gridnet, in virtual
//     time, on switches whose ports hold what those of small ones do. That needs a synctest
//     bubble and so a test binary: emulate.go builds this package's tests and runs TestEmulate
//     with a list of jobs;
//   - lab: real processes, MPI libraries among them, which scripts/peers has written to
//     peers.json in the folder of the results (scripts/peers -o json > docs/results/peers.json).
//
// A fifth one, paper, marks the few numbers that the papers print. They come from machines
// of 2000 to 2005: compare ratios, not times.
//
// What is measured and how it is shown are kept apart: the measurements of an experiment are
// its ID.json, and everything else in the folder is made from these files (--draw makes it
// again). So no number in a page is typed. A record has a digest of its plan: where the code makes
// another one by now, or emulates other switches, the pages mark its row as old.
//
// Place in the flow: beside it, above the planner and the engine; scripts/bench papers runs
// it.
//
// Sources: Gupta & Vadhiyar, HPDC 2007, §6 (min3-*); Faraj & Yuan, IPDPS 2005, §6 (aapc05-*);
// Faraj, Yuan & Patarasuk, TPDS 2007, §6 (aapc-*); Tam & Wang, 2000, §4 (exchange-*); Faraj,
// Patarasuk & Yuan on all-to-all broadcast, §5 (rings-*). Most figures are lost in the text
// of the papers that we have, so sizes and topologies are partly our reading of it; each page
// says so.
package main
