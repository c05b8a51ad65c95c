// Package treetest runs plans with real engines over real lanes on an emulated network, in
// virtual time and without agents: no gossip, probes or groups are there to disturb the
// clock, so that what a plan took can be compared with what [plan.Simulate] predicts.
//
//	treetest.Run(t, treetest.Config{Net: cfg}, func(c *treetest.Cluster) {
//		r := c.Run(p) // every host has the right bytes, or the test ends
//		t.Logf("%v, %d bytes over s0→s1", r.Makespan, r.Carried("s0", "s1"))
//	})
//
// The network is any that package gridnet can emulate: a switch tree
// ([gridnet.FromTopology]) or sites and WAN links ([gridnet.FromGrid]).
//
// Place in the flow: beside it, above exchange and gridnet; only tests import it. Tests of
// whole agents are in internal/grid.
package treetest
