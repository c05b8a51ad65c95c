// Package agent is the daemon: one on each host, joined to the others.
//
// [New] puts the rooms together over one socket: membership (who is there), probe
// and the map (what the network is like), groups (which ranks belong together),
// planner and exchange engine (how the bytes move), and the local API for clients on
// the same host. [Agent.Run] owns them all.
//
// What the agent needs from outside is handed in ([Options]): a net.PacketConn for
// everything between agents, a net.Listener for the local API, a directory. So whole
// grids of agents run in one process over an emulated network.
//
// Place in the flow: at the top; only cmd and the demo import it.
package agent
