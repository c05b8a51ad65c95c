// Command gridagent is the command line of gridagent: it runs the agent, talks to a
// running one, and makes, verifies and simulates plans from files.
//
// It is thin: a command parses its flags, calls the package that knows, and prints
// what that answers. One file holds one command. Settings come from flags, GRIDAGENT_*
// variables and a YAML file, in that order ([app.configure]); exit statuses are listed
// in exit.go and docs/cli/README.md.
//
// Place in the flow: the edge on the operator's side; nothing imports it.
package main
