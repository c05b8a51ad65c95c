// Package labtest holds tests that run the gridagent binary in labs (internal/lab): agents and
// clients as processes in network namespaces, over links with the rate and delay of a grid file,
// which are changed and cut, and hosts that are killed.
//
// Whole grids in virtual time are tested in internal/grid; here is what only the real thing shows:
// sockets, kernel queues, the machine's clock, processes that end.
//
// The tests need a machine that can make labs, and on which all else gives way to them, so they run only with
// GRIDAGENT_LAB_TESTS=1, as in scripts/clocks, which scripts/test runs beside the other tests:
//
//	GRIDAGENT_LAB_TESTS=1 go test -count=1 -v ./internal/labtest
//
// With GRIDAGENT_LAB_TESTS=all those that take minutes run, too.
//
// Place in the flow: above everything; it has no code of its own.
package labtest
