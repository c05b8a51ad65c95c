package gridnet

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A Rate is a number of IP bytes a second (of a socket's datagram: UDP payload +
// [HeaderBytes]). Zero means no limit.
type Rate float64

// Mbps is 10^6 bits a second.
const Mbps Rate = 1e6 / 8

// Sizes of packets, in bytes.
const (
	MTU         = 1500              // largest IP packet; larger ones are dropped and counted
	HeaderBytes = 28                // IPv4 and UDP header, which every rate and counter includes
	MaxPayload  = MTU - HeaderBytes // largest UDP payload
)

// Defaults, in the unit of the field that they stand in for.
const (
	// defaultEgressQueue is Linux's txqueuelen.
	defaultEgressQueue = 1000
	// defaultIngressQueue is a switch port with 384 KB of buffer.
	defaultIngressQueue = 256
	// minWANQueue keeps slow links usable: one bandwidth-delay product of 1.25 Mbit/s
	// at 100 ms is 10 packets, fewer than quic-go's initial window of 32. With one connection
	// in each direction at 1.25 Mbit/s, queues of 8, 16, 32, 64, 128 packets gave a goodput of
	// 71, 87, 91, 92, 93 % a direction; at 20 Mbit/s 61, 76, 83, 88, 93 %.
	minWANQueue = 64
	// defaultSendBuffer is what Linux's default of 208 KiB holds of full packets once
	// the kernel's own bookkeeping (2304 B for a 1500 B packet) is counted in. A deeper
	// one delays acknowledgements behind data: full duplex falls from 1.9 to 1.6
	// times half duplex.
	defaultSendBuffer = 128 << 10
	defaultReadBuffer = 208 << 10
	maxReadBuffer     = 8 << 20 // quic-go asks for 7 MiB
)

// A Config describes a grid. The zero value of each optional field is the default.
type Config struct {
	Sites []Site // at least one, at most 255
	Links []Link // directed; at most one for each ordered pair of sites

	// Trunks are directed cables between the switches of two sites. Packets between sites
	// without a link of their own go over trunks, the fewest that lead there; which of several
	// ways that are as short depends on the order here alone. Each trunk stores a packet
	// whole, queues it and sends it on as a pipe does; its Latency is that of the cable and adds
	// up over the way, with half the latency of the site at either end. A Queue of 0 is that
	// of a switch port, 256 packets. A pair of sites has a link or a trunk, not both.
	Trunks []Link

	// Seed seeds loss and jitter. Zero is a seed like any other.
	Seed uint64

	// RealTime is for use outside a synctest bubble: the event loop then sleeps on
	// the kernel's high-resolution timer where there is one (Go's own wakes up to
	// 1 ms late in an idle process) and handles events in batches of 100 µs, late by
	// no more than that and without drift. Inside a bubble it would stop the clock.
	RealTime bool

	// Rouse, if set, is for a user with a loop of his own, who carries packets of real hosts: there is no event
	// loop then, and he calls [Network.Advance]. Rouse says that it is due earlier than the last Advance
	// said, since something was sent or changed. It must not block and must not call the network. RealTime then has no effect.
	Rouse func()

	// SendBuffer is how many IP bytes one socket may have waiting in its host's egress
	// port before WriteTo blocks. Zero means 128 KiB. Much more delays
	// acknowledgements behind data; less than 2 packets starves the port.
	SendBuffer int

	// OnPacket, if set, is called for every packet event, in their total order; only what
	// several hosts send at one instant is reported as it comes. It must not block and must
	// not call the network.
	OnPacket func(Event)
}

// A Site is a set of hosts on one switch.
type Site struct {
	Name  string
	Hosts []string // names, unique over all sites

	// Rate is that of each host's port, in each direction. Zero means no limit.
	Rate Rate
	// Latency is the one-way delay between two hosts of the site.
	Latency time.Duration
	// EgressQueue is how many packets wait in a host before its port drops; zero means
	// 1000, as Linux. A single socket blocks before that, see [Config.SendBuffer].
	EgressQueue int
	// IngressQueue is how many packets wait at the switch for one host; zero means 256.
	IngressQueue int
	// ReceiveJitter delays each packet, after the port, by a uniform random time of up
	// to this, without reordering: interrupt coalescing and a busy receiver.
	ReceiveJitter time.Duration
}

// A Link is the directed path from one site to another, shared by all their flows.
type Link struct {
	From, To string

	// Rate is what all flows get together. Zero means no limit.
	Rate Rate
	// FlowRate is the ceiling of one flow (source address and port, destination
	// address and port; from a [Wire], port 0 for fragments and for what is neither TCP nor
	// UDP): packets of a flow leave for the shared queue spaced by size/FlowRate; those that
	// wait do so in a queue of the flow's own. Zero means none.
	FlowRate Rate
	// Latency is the one-way delay of the whole path between two hosts.
	Latency time.Duration
	// Jitter adds a uniform random delay of up to this to each packet. Packets stay in
	// order unless Reorder is set.
	Jitter  time.Duration
	Reorder bool
	// Loss is the share of packets, 0 … 1, that are lost independently of each other
	// after they crossed the bottleneck: they cost capacity.
	Loss float64
	// BlockUDP loses every packet of UDP, as some firewalls do; other protocols, from wires, pass.
	BlockUDP bool
	// BlockTCP loses every packet of TCP; others pass.
	BlockTCP bool
	// Queue is how many packets wait before the bottleneck, not counting the one
	// in transmission; and as many for each flow under FlowRate. Zero means one
	// bandwidth-delay product (sustained rate × 2 Latency) of full packets, at least 64.
	Queue int
	// ShapeRate and ShapeBurst are a token bucket before the bottleneck: up to
	// ShapeBurst bytes pass at Rate, more at ShapeRate. Both zero means none; the burst
	// must hold a packet.
	ShapeRate  Rate
	ShapeBurst int
}

// time returns how long size bytes take, at least a nanosecond: each step of
// a packet must be later than the one before, or the order of events within one
// instant would depend on who got the lock first.
func (r Rate) time(size int) time.Duration {
	if r <= 0 {
		return 1
	}
	return max(1, time.Duration(math.Round(float64(size)/float64(r)*1e9)))
}

func (s *Site) egressQueue() int  { return orDefault(s.EgressQueue, defaultEgressQueue) }
func (s *Site) ingressQueue() int { return orDefault(s.IngressQueue, defaultIngressQueue) }

// Sustained is what all flows get together in the long run: the rate of the token bucket where there is a slower one.
func (l *Link) Sustained() Rate {
	if l.ShapeRate > 0 && (l.Rate == 0 || l.ShapeRate < l.Rate) {
		return l.ShapeRate
	}
	return l.Rate
}

func (l *Link) queue() int { return orDefault(l.Queue, l.bdp(l.Sustained())) }

func (l *Link) flowQueue() int { return orDefault(l.Queue, l.bdp(l.FlowRate)) }

// bdp returns the bandwidth-delay product of r over one round trip in full packets, within reason.
func (l *Link) bdp(r Rate) int {
	return int(min(max(float64(r)*2*l.Latency.Seconds()/MTU, minWANQueue), 1<<16))
}

func orDefault(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}

func (c *Config) check() error {
	if len(c.Sites) == 0 || len(c.Sites) > 255 {
		return fmt.Errorf("%d sites: want 1 to 255", len(c.Sites))
	}
	if c.SendBuffer < 0 {
		return fmt.Errorf("send buffer of %d bytes is negative", c.SendBuffer)
	}
	sites, hosts := map[string]bool{}, map[string]string{}
	for i := range c.Sites {
		s := &c.Sites[i]
		if sites[s.Name] {
			return fmt.Errorf("site %q: given twice", s.Name)
		}
		sites[s.Name] = true
		if err := s.check(); err != nil {
			return fmt.Errorf("site %q: %w", s.Name, err)
		}
		for _, h := range s.Hosts {
			if in, ok := hosts[h]; ok {
				return fmt.Errorf("site %q: host %q is already in site %q", s.Name, h, in)
			}
			hosts[h] = s.Name
		}
	}
	seen := map[[2]string]string{}
	for i := range c.Links {
		if err := c.Links[i].checkAs("link", sites, seen); err != nil {
			return err
		}
	}
	for i := range c.Trunks {
		if err := c.Trunks[i].checkAs("trunk", sites, seen); err != nil {
			return err
		}
	}
	return nil
}

// checkAs checks l, a link or trunk between two of sites, and notes its kind in seen.
func (l *Link) checkAs(kind string, sites map[string]bool, seen map[[2]string]string) error {
	pair := [2]string{l.From, l.To}
	var err error
	switch {
	case !sites[l.From]:
		err = fmt.Errorf("no site %q", l.From)
	case !sites[l.To]:
		err = fmt.Errorf("no site %q", l.To)
	case l.From == l.To:
		err = errors.New("leads to its own site")
	case seen[pair] == kind:
		err = errors.New("given twice")
	case seen[pair] != "":
		err = fmt.Errorf("there is a %s already, and packets would not know which to take", seen[pair])
	default:
		seen[pair] = kind
		err = l.check()
	}
	if err != nil {
		return fmt.Errorf("%s %s→%s: %w", kind, l.From, l.To, err)
	}
	return nil
}

func (s *Site) check() error {
	if len(s.Hosts) > 65534 {
		return fmt.Errorf("%d hosts: want at most 65534", len(s.Hosts))
	}
	return errors.Join(
		checkRate("rate", s.Rate),
		checkDelay("latency", s.Latency),
		checkDelay("receive jitter", s.ReceiveJitter),
		checkQueue("egress queue", s.EgressQueue),
		checkQueue("ingress queue", s.IngressQueue))
}

func (l *Link) check() error {
	if !(l.Loss >= 0 && l.Loss <= 1) {
		return fmt.Errorf("loss of %v: want 0 to 1", l.Loss)
	}
	if (l.ShapeRate == 0) != (l.ShapeBurst == 0) || l.ShapeBurst < 0 || (l.ShapeBurst > 0 && l.ShapeBurst < MTU) {
		return fmt.Errorf("token bucket of %v bytes/s and %d bytes: want both or neither, and at least %d bytes",
			float64(l.ShapeRate), l.ShapeBurst, MTU)
	}
	return errors.Join(
		checkRate("rate", l.Rate),
		checkRate("flow rate", l.FlowRate),
		checkRate("token bucket", l.ShapeRate),
		checkDelay("latency", l.Latency),
		checkDelay("jitter", l.Jitter),
		checkQueue("queue", l.Queue))
}

// checkRate refuses what would overflow the clock: a byte a second is the slowest.
func checkRate(what string, r Rate) error {
	if r == 0 || (r >= 1 && r <= 1e15) {
		return nil
	}
	return fmt.Errorf("%s of %v bytes/s: want 0 (no limit) or 1 to 1e15", what, float64(r))
}

// The most that a delay and a queue may be.
const (
	MaxDelay = time.Hour
	MaxQueue = 1 << 24 // packets
)

func checkDelay(what string, d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return fmt.Errorf("%s of %v: want 0 to 1h", what, d)
	}
	return nil
}

func checkQueue(what string, n int) error {
	if n < 0 || n > MaxQueue {
		return fmt.Errorf("%s of %d packets: want 0 (the default) to %d", what, n, MaxQueue)
	}
	return nil
}
