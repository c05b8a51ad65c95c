// Package membership knows who is in the cluster and where.
//
// It runs hashicorp/memberlist (SWIM with Lifeguard's extensions) over an agent's
// [lane.Endpoint]: gossip packets are datagrams of kind lane.PacketGossip, state
// exchanges are streams of kind lane.StreamGossip on mutually authenticated lanes.
// What memberlist tells is kept in a table of our own, with members remembered from
// earlier runs; hosts that are lost are asked to join again for as long as the agent
// lives, so that the sides of a split find each other.
//
// Who ends says farewell to every member first, and which of two it is: who stops is called
// back like one that has died, without having to be found dead; who leaves is forgotten,
// and the members remember that and tell each other in state exchanges. What is remembered of
// leaving may be wrong, so it never has the last word: whoever is there is a member, each
// agent asks those who left once after its start, and one that is alone does not stop asking.
//
// Gossip is a claim, not a proof: whoever holds the gossip key can tell anything
// (memberlist's SECURITY.md). So this package says where a host is thought to be;
// who is there, lanes prove by certificate, and nothing here closes a lane.
//
// Place in the flow: under agent, beside probe; it feeds names and addresses to
// exchange/lane ([Membership.Resolve]) and to whoever forms groups or measures.
//
// Sources: Das, Gupta, Motivala, "SWIM" (DSN 2002); Dadgar, Phillips, Currey,
// "Lifeguard" (arXiv 1707.00788).
package membership
