package gridnet

import (
	"fmt"
	"net/netip"
	"time"
)

// A Reason says why a packet was dropped.
type Reason uint8

// The reasons, in the order in which a packet meets them.
const (
	TooBig      Reason = iota // larger than MTU
	NoRoute                   // no such host, or neither link nor trunks between the two sites; from a wire, also one of its own site
	QueueFull                 // drop-tail, at a port or pipe
	CeilingFull               // the queue of the flow's own, under [Link.FlowRate]
	Lost                      // by chance, [Link.Loss]
	UDPBlocked                // [Link.BlockUDP]
	TCPBlocked                // [Link.BlockTCP]
	LinkCut                   // the pipe or the host's cable is cut
	HostDown                  // the host was killed
	NoSocket                  // nobody listens on the port, or the site has no wire for a real host's packet
	BufferFull                // the receiver does not read fast enough

	reasons
)

func (r Reason) String() string {
	names := [reasons]string{"too big", "no route", "queue full", "ceiling full", "lost", "UDP blocked", "TCP blocked", "link cut",
		"host down", "no socket", "buffer full"}
	if r < reasons {
		return names[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// A Count is a number of packets and of their IP bytes.
type Count struct{ Packets, Bytes uint64 }

func (c *Count) add(p *packet) { c.Packets++; c.Bytes += uint64(p.size) }
func (c *Count) sub(p *packet) { c.Packets--; c.Bytes -= uint64(p.size) }

// Traffic is what one port or pipe has seen. Always
// Offered = Delivered + Lost + Inside.
type Traffic struct {
	Offered   Count          // came in
	Delivered Count          // went out
	Dropped   [reasons]Count // by [Reason]
	Inside    Count          // queued, in transmission or on the wire now
	HighWater int            // most packets that ever waited in the shared queue
}

func (t *Traffic) enter(p *packet) { t.Offered.add(p); t.Inside.add(p) }
func (t *Traffic) leave(p *packet) { t.Inside.sub(p); t.Delivered.add(p) }
func (t *Traffic) drop(p *packet, r Reason) {
	t.Inside.sub(p)
	t.Dropped[r].add(p)
}

// Lost sums Dropped over all reasons.
func (t *Traffic) Lost() Count {
	var sum Count
	for _, c := range t.Dropped {
		sum.Packets += c.Packets
		sum.Bytes += c.Bytes
	}
	return sum
}

// LinkStats is the traffic of one directed WAN pipe or trunk, from the entry of its queue
// to the switch at its far end.
type LinkStats struct {
	From, To string // sites
	Traffic
	// Cross is the traffic of [Network.StartCross], which Traffic does not hold. HighWater above counts its
	// packets, too: they wait in the same queue.
	Cross Traffic
}

// HostStats is the traffic of one host: out of its sockets to the end of its port,
// from its switch port into its sockets, and between its own sockets. Of a real host it is what
// its wire took from it and has for it: nothing waits there, so HighWater is 0.
type HostStats struct {
	Host, Site                string
	Egress, Ingress, Loopback Traffic
}

// Stats are the counters of a network at one instant, in the order of the [Config].
type Stats struct {
	At     time.Duration // since the network began
	Links  []LinkStats
	Trunks []LinkStats
	Hosts  []HostStats
	Stray  Count // written to a wire from an address that no host of its site has
	Late   Late
}

// Late says how well a network in real time kept to its own times. It compares when a packet
// was put into its receiver's socket, or taken by [Wire.Read], with when it was due: 0.1 ms
// is by design ([Config.RealTime]; with [Config.Rouse] the caller's affair), much more is a machine that is too busy for the
// traffic, or a wire that is not read. Lateness does not add up: queues
// and pipes go by the times that were due. In a bubble only a slow reader of a wire is late.
//
// The counters less those of an earlier Stats are the lateness between the two, but for Worst.
type Late struct {
	Packets uint64        // handed over, on time or not
	Over    uint64        // of these, more than 1 ms late
	Sum     time.Duration // of the lateness of all
	Worst   time.Duration // since the network began
}

// tooLate is what counts as [Late.Over]: ten times what is by design, and about the time of a
// packet at 10 Mbit/s.
const tooLate = time.Millisecond

func (l *Late) add(d time.Duration) {
	l.Packets++
	l.Sum += d
	l.Worst = max(l.Worst, d)
	if d > tooLate {
		l.Over++
	}
}

// Link returns the counters of the link or trunk between two sites, and whether there is one.
func (s *Stats) Link(from, to string) (LinkStats, bool) {
	for _, list := range [][]LinkStats{s.Links, s.Trunks} {
		for _, l := range list {
			if l.From == from && l.To == to {
				return l, true
			}
		}
	}
	return LinkStats{}, false
}

// Host returns the counters of a host, and whether there is one.
func (s *Stats) Host(name string) (HostStats, bool) {
	for _, h := range s.Hosts {
		if h.Host == name {
			return h, true
		}
	}
	return HostStats{}, false
}

// A Kind says what happened to a packet.
type Kind uint8

// The kinds of events.
const (
	Sent      Kind = iota // a socket handed it to the host, or a real host's wire to the network
	Crossed               // its last bit left the bottleneck of a WAN pipe or trunk, and it was not lost there
	Delivered             // it lies in the receiver's socket or wire
	Dropped               // see Reason
)

func (k Kind) String() string {
	names := [...]string{"sent", "crossed", "delivered", "dropped"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// An Event is one thing that happened to one packet.
type Event struct {
	At     time.Duration // since the network began
	Kind   Kind
	Reason Reason // where Kind is Dropped
	Src    netip.AddrPort
	Dst    netip.AddrPort
	Seq    uint64 // counts the packets of the sending socket, or of the wires of its site, from 1
	Size   int    // IP bytes
	// Head is the first byte of a datagram, by which lanes tell QUIC from what is theirs; of a wire's
	// packet it is that of the IP header. 0 if there is none.
	Head byte
}

func (e Event) String() string {
	s := fmt.Sprintf("%v %v→%v #%d %dB %v", e.At, e.Src, e.Dst, e.Seq, e.Size, e.Kind)
	if e.Kind == Dropped {
		s += " " + e.Reason.String()
	}
	return s
}
