// Package e2etest runs the gridagent binary for tests: processes with their output, exit
// statuses and signals, and the files that go in and come out.
//
// Place in the flow: beside it; only tests import it, those of internal/e2e and
// internal/labtest.
package e2etest
