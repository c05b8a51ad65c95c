// Command accuracy measures how true the network map is, what keeping it so costs, and how soon it
// tells of a change. scripts/bench probes runs it.
//
// Its table has the rows of the numbers to reach of live measurement, each with what was measured, the bound and whether it
// is kept; it exits 1 if one is not. A row is made of cells ([Cell]): a world, a seed, and how long to look. All of them run
// in virtual time over internal/gridnet with real agents, so that hours of idling take minutes and two runs differ by
// about one per cent. That needs synctest bubbles and so a test binary: package bubble builds this package's tests and runs
// TestMeasure with a list of cells. What a cell found is a [Reading]; judging and showing readings is pure (judge.go, page.go).
//
// The truth is never what an agent says. For one flow it is what one QUIC lane gets that has the world to itself, after slow
// start; for capacities, round trips and bytes it is what the emulator was told and has counted.
//
// Cells that were chosen are cells that the code was made right on. With --random grids are drawn from seeds instead (package
// random), their agents start one after the other, and every link is judged, before and after one changes.
//
// TestQuick runs a few small cells, one drawn grid among them, and asserts the bounds that are kept; with
// GRIDAGENT_ACCURACY_TESTS=all some of each row.
//
// Place in the flow: beside it, above agent and internal/grid; nothing imports it.
package main
