// Package gridnet is an emulated network of sites: its one job is to make the
// packets of many hosts in one process take as long, queue as deep and get lost
// as often as they would on the links of a grid file.
//
// A host opens [Conn]s, which are [net.PacketConn]s; quic-go and a gossip
// transport run over them unmodified. A packet takes this way:
//
//	egress port of the sender        site rate, drop-tail queue, send buffer of the socket
//	  same site:  the switch         site latency
//	  other site: directed WAN pipe  ceiling per flow → drop-tail queue → rate, token bucket → loss → latency, jitter
//	          or: trunks, one by one  each as a WAN pipe; between two switches of a tree
//	ingress port of the receiver     site rate, drop-tail queue, receive buffer of the socket
//
// Hosts can also be real, site by site: [Network.Attach] gives a [Wire], to which somebody
// carries the IPv4 packets of machines with a kernel of their own. The lab attaches wires to the TAP
// devices of its sites. Such a packet goes from Wire.Write to the WAN pipe or the trunks and from
// there to Wire.Read; ports, switch and receive jitter are left to the kernels.
//
// Ports and pipes store a packet whole and then send it at their rate. Rates
// count IP bytes, which are UDP payload + 28 bytes of IPv4 and UDP header, or the total length of a
// wire's packet: nothing of Ethernet. A latency is the one-way delay of the whole path, from the
// last bit out of the slowest sender's port to the first bit at the receiver's.
//
// A WAN pipe is one bottleneck for all flows between two sites, as the shared
// links of Gupta & Vadhiyar (HPDC 2007, Table 2) are; that many flows may get
// more than one (§3 there) is the ceiling per flow, [Link.FlowRate].
//
// Strangers share a link or trunk with the hosts ([Network.StartCross]): packets at a constant rate or at random
// times that no host sends or gets. They take rate and queue, and are counted apart.
//
// Trunks make a tree of switches out of sites ([Config.Trunks], [FromTopology]): full-duplex
// cables between store-and-forward switches, shared by all whose way leads over them, as
// Faraj & Yuan (IPDPS 2005, §2) have them.
//
// All events are applied in the total order (time, source, destination, sequence),
// in virtual time (a testing/synctest bubble) as in real time; random choices come
// from one generator per pipe and host, seeded by [Config.Seed]. So what the
// network does depends only on when each host sends what. The one choice left to
// the Go scheduler is the order of two goroutines that send from one host, or write to one
// wire, at the same instant.
//
// Place in the flow: beside it. Agents, probes and lanes take a net.PacketConn
// from outside; tests and the demo hand them one of these, the lab a kernel's socket.
package gridnet
