// Package e2e holds tests that build the gridagent binary and run it as its users do:
// processes with folders and ports of their own on this machine's loopback, which are
// killed, interrupted and restarted.
//
// What can be tested inside one process is tested where the code is; here is what only
// the real thing shows: exit statuses, standard error, signals, files left behind.
//
// Place in the flow: above everything; it has no code of its own.
package e2e
