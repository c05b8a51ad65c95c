// Command performance measures how near to the bound exchanges come, in virtual time. scripts/bench exchange runs it.
//
// Its table has the rows of the numbers to reach of the exchange engine. A row is made of cells ([Cell]): a network,
// an operation, a size. Each is run in a synctest bubble over internal/gridnet, by real agents that have measured the network
// themselves, or, where only plans and the engine are in question, by engines alone (internal/treetest). What a cell finds is
// a [Reading], whose checks ([Check]) stand beside their bounds; judging and showing them is pure (cell.go, page.go).
//
// Makespans are from the moment when the last rank is ready to the last rank's return, so agreeing on sizes, planning and
// handing out the plan are in them. Bounds are those of package plan over what the emulator was told, never over what agents believe; they
// count the bytes of blocks alone, so headers of QUIC and IP (4.8 % of a packet of 1,280 bytes, with which connections begin, 4.2 % of one of 1,441) are in the ratios.
//
// Place in the flow: beside it, above agent and internal/grid; nothing imports it.
package main
