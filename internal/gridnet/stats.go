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
	NoRoute                   // no such host, or neither link nor trunks between the two sites
	QueueFull                 // drop-tail, at a port or pipe
	CeilingFull               // the queue of the flow's own, under [Link.FlowRate]
	Lost                      // by chance, [Link.Loss]
	LinkCut                   // the pipe or the host's cable is cut
	HostDown                  // the host was killed
	NoSocket                  // nobody listens on the port
	BufferFull                // the receiver does not read fast enough

	reasons
)

func (r Reason) String() string {
	names := [reasons]string{"too big", "no route", "queue full", "ceiling full", "lost", "link cut",
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
}

// HostStats is the traffic of one host: out of its sockets to the end of its port,
// from its switch port into its sockets, and between its own sockets.
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
	Sent      Kind = iota // a socket handed it to the host
	Crossed               // its last bit left the bottleneck of a WAN pipe or trunk, and it was not lost there
	Delivered             // it lies in the receiver's socket
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
	Seq    uint64 // counts the packets of the sending socket, from 1
	Size   int    // IP bytes
}

func (e Event) String() string {
	s := fmt.Sprintf("%v %v→%v #%d %dB %v", e.At, e.Src, e.Dst, e.Seq, e.Size, e.Kind)
	if e.Kind == Dropped {
		s += " " + e.Reason.String()
	}
	return s
}
