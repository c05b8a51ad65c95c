// Command schedcost measures what scheduling costs and writes docs/scheduling-cost.md.
//
// It builds this package's tests, runs their benchmark one series and one size at a time, reads
// the lines that go test -bench prints, fits how time and memory grow with the hosts, and
// writes the page. No number on the page is typed, but those of the papers (papers.go).
//
// One size at a time, because the next one is known only from the last: a size that
// would take too long or too much memory is left out, and the page says so.
//
// The series are the rows of the planner's table ([planner.Algorithms]), so a new
// algorithm is measured without a change here, and beside them what else happens between a
// map and a plan that runs. The benchmarks in the packages themselves look for hard
// inputs; these here have the same inputs for all, at 8 to 1024 hosts.
//
// Place in the flow: beside it, above the planner; scripts/cost runs it.
package main
