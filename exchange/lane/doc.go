// Package lane carries bytes between agents: one UDP socket, many QUIC connections.
//
// An [Endpoint] owns the socket of an agent. Over it run, told apart by the two
// highest bits of a packet's first byte as quic-go's Transport does:
//
//   - QUIC connections between members of the cluster (mutual TLS 1.3), each a lane:
//     its own congestion window and loss recovery. A pair of agents has lane 0 for
//     control and data, and may have more lanes for parallel transfer;
//   - QUIC connections of hosts that have no certificate yet (server authentication
//     only), on which nothing but a request to join is accepted;
//   - datagrams of our own (gossip, probe trains), marked by their first byte.
//
// The first byte of every stream says who handles it ([StreamKind]).
//
// Place in the flow: the network edge under agent, probe and exchange; it knows
// nothing of plans, groups or maps.
package lane
