// Package lane carries bytes between agents: one UDP socket, many QUIC connections,
// one more socket for each further lane, and TLS over TCP where that is cheaper.
//
// An [Endpoint] owns the socket of an agent. Over it run, told apart by the two
// highest bits of a packet's first byte as quic-go's Transport does:
//
//   - QUIC connections between members of the cluster (mutual TLS 1.3), each a lane:
//     its own congestion window and loss recovery. A pair of agents has lane 0 for
//     control and data, and may have more lanes for parallel transfer;
//   - QUIC connections of hosts that have no certificate yet (server authentication
//     only), on which nothing but one request to join is accepted;
//   - datagrams of our own (gossip, probe trains), marked by their first byte.
//
// The first byte of every stream says who handles it ([StreamKind]).
//
// Which connection a stream takes: the newest of its pair and lane that lives. After a
// restart of the peer that is the one it has just made, whether or not the loss of the
// older one was noticed yet; two ends that dial each other at once keep both
// connections, and each opens streams on the one it saw last. No connection is ever
// closed because another exists: there may be streams on it. One that neither end has a use for
// is closed when both have said so ([Endpoint.CloseIdle]). The lanes above 0 belong to
// the end that dialed them; the other end only accepts streams there. Each is dialed from a
// socket of its own ([Config.OpenSocket]) to the peer's one socket, so that a network that
// holds, queues or routes by flow takes it for a flow; who has no more use for such lanes
// closes them ([Endpoint.CloseLanes]).
//
// TCP lanes ([Endpoint.OpenTCP], tcp.go) carry streams of data, and of groups to hosts that are near, with the same
// certificates and checks, at the same port number. A connection has one stream at a time, so
// there is no multiplexer and no window of ours: a unit's length or a mark stands before what
// is a stream's (tcpconn.go). One whose stream has ended in order rests at the end that dialed it, for
// the next; one whose stream was aborted is closed, which frees whoever blocks on it. Who gives a stream up and says so
// ([TCPStream.GiveUp]) leaves the connection to the next.
//
// Two members that cannot reach each other have streams by way of a third one ([Endpoint.OpenVia], via.go), which splices two of
// its own and can neither read nor change what passes: TLS runs inside, from end to end.
//
// Where UDP does not get through, datagrams and lane 0 go inside a TCP connection, a tunnel (tunnel.go), that is made when UDP is not
// answered (reach.go) and left when it is again (tryudp.go).
//
// Packets of short words that somebody waits for are sent twice over ways that lose some ([Endpoint.Twice], twice.go),
// and so is what repairs the last packets of an operation there ([Stream.RepairTwice]).
//
// A socket of the kernel's is read and written past the runtime's entry for calls that may block (udp.go): that entry costs a host
// that sleeps between packets more than the packets do. What a TCP lane writes at once is marked as one for the kernel, its reader is woken by whole
// records (tcprecords.go), and its socket takes little beyond what it may send, so that plans keep their order (tcpsocket.go).
//
// What a stranger can make an endpoint hold is bounded: handshakes in progress, joins
// at once, and the receive windows of those; what a member can is bounded by
// connections a member, streams a connection and the endpoint's window budget; TCP connections are counted likewise, and what they hold is the
// kernel's socket buffers.
//
// Place in the flow: the network edge under agent, probe and exchange; it knows
// nothing of plans, groups or maps.
package lane
