package exchange

import (
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Path is what is believed of the way to a host before the first byte goes there.
type Path struct {
	// RTT is the round trip without queues. Zero means that it is unknown or too short to
	// matter: then only the connection's congestion control holds the data back, and one
	// lane is enough.
	RTT time.Duration
	// Rate is what one flow gets alone; zero means unknown, with the same effect.
	Rate netmap.BytesPerSec
	// Capacity is what many flows get together. Zero, or less than Rate, means Rate.
	Capacity netmap.BytesPerSec
	// AtLeast says that Capacity was seen to get through, and that nobody has looked for more.
	AtLeast bool
	// Blind says that nobody has looked for what several flows get, nor seen it: it may be far more than what one does.
	Blind bool
	// Link is what all pairs of hosts of the two sites were seen to get together at least, where a port holds each of
	// them. Zero, or less than Capacity, means Capacity.
	Link netmap.BytesPerSec
	// Knee is the number of flows that reaches Capacity, as measured. Zero means that it is
	// to be concluded from Capacity and Rate.
	Knee int
	// Back is what many flows get together the other way; zero means unknown.
	Back netmap.BytesPerSec
	// Drain is the rate at which what a socket has taken leaves this host, where the path is too short for all the others to matter; zero means at
	// once.
	Drain netmap.BytesPerSec
	// Loss is the share of packets that the path loses, 0 … 1.
	Loss float64
	// Flows is how many pairs of hosts are likely to share the slowest link of the path, this
	// one included. Zero means what the engine can tell: see [Config.Site]. Too many cost a
	// short transfer a round trip or two of growth, too few cost losses at the start.
	Flows int
	// spaced says that what goes here does so at a [spacing].
	spaced bool
	// yields says that answers to what comes the other way, which is faster, are not to wait behind what goes here, see [run.lanesTo].
	yields bool
	// Packet is how many bytes of a stream one packet carries, 0 if that is not known.
	Packet int
}

// farther is how many times as far as it is believed to be a host may seem at most: the
// handshake of a connection that is new may have met a queue.
const farther = 4

// over returns p as s, a stream just opened, knows it better: the least round trip that its
// connection has seen is no shorter than the path's. Believed half as long as it is, a
// path would seem to be all queue, and its window would go down to a chunk. A QUIC connection also knows
// how long its packets are.
func (p Path) over(s Stream) Path {
	if m, ok := s.(measured); ok && p.RTT > 0 {
		p.RTT = max(p.RTT, min(m.Stats().MinRTT, farther*p.RTT))
	}
	if m, ok := s.(packeted); ok {
		p.Packet = m.Payload()
	}
	return p
}

// known reports whether p says enough to be of use.
func (p Path) known() bool {
	return p.RTT > 0 && p.Rate > 0 && !math.IsInf(float64(p.Rate), 0) && !math.IsNaN(float64(p.Capacity)) && !math.IsNaN(float64(p.Link))
}

// Lossy reports whether losses may hold what goes over p, so that a pair of hosts has a spare lane beside the first.
func (p Path) Lossy() bool { return p.Loss > leastLoss }

// risk returns how likely it is that a packet of so many bytes, in full packets, is lost on the way.
func (p Path) risk(bytes float64) float64 {
	return -math.Expm1(-p.Loss * math.Ceil(bytes/(leastSlice/2)))
}

// capacity returns what many flows get, at least what one does.
func (p Path) capacity() netmap.BytesPerSec { return max(p.Capacity, p.Rate) }

// link is what all pairs of hosts of the two sites get together, as far as that is known.
func (p Path) link() netmap.BytesPerSec { return max(p.capacity(), p.Link) }

const (
	// slack is how many more lanes are opened than would fill the path if each got what one
	// flow gets alone, where no knee was measured: flows that losses hold take turns at being
	// slow. At 20 Mbit/s, 100 ms and 1 % loss one flow gets 1.6 Mbit/s, and 8, 16, 24 lanes
	// together 70, 100, 100 % of the link; at 200 Mbit/s and 0.1 %, where one gets 6.2, 32 lanes
	// get 97 % and 48 all of it (docs/design/lanes.md).
	slack = 4. / 3
	// leastLoss is the share of lost packets from which on losses are taken for what holds a flow.
	// Otherwise the network holds each flow to its rate, and more lanes than fill the path
	// only fill its queue.
	leastLoss = 1e-5
	// kneeShare of the capacity is what the lanes of the knee get, as for the prober.
	kneeShare = 0.95
	// several is how many times what one flow gets a path must carry for more lanes to
	// be worth a handshake each.
	several = 1.25
	// laneBytes is the most that one lane is asked to have in flight. quic-go's window ends at
	// 12.8 MB, and a flow of over 300 Mbit/s at 100 ms, 3.75 MB, is held by its pacer at times
	// (lane.Config.Window says why).
	laneBytes = 3 << 20
)

// MaxLanes is over how many lanes a host sends to another one at most.
const MaxLanes = maxLane

// Lanes returns over how many lanes this host sends on p when Flows pairs of hosts share it: the pair's
// part of what fills the path. It is 1 where little is known, and at most [MaxLanes].
func (p Path) Lanes() int {
	if !p.known() {
		return 1
	}
	all, flows := float64(p.capacity()), float64(max(p.Flows, 1))
	if p.Link > p.capacity() { // a port holds each pair: so many times fewer of them share what one gets
		flows = max(flows*float64(p.capacity()/p.Link), 1)
	}
	want, ratio := 1.0, all/float64(p.Rate)
	if ratio >= several {
		want = kneeShare * ratio
		if p.Loss > leastLoss {
			want = slack * ratio
		}
	}
	switch {
	case p.Knee > 0 && p.Loss > leastLoss: // a search of seconds meets few losses, or many
		want = max(want, float64(p.Knee))
	case p.Knee > 0 && flows > 1 && ratio >= several:
		// Searches of one pair find four lanes on one day and six on another where four get 95 %. Of five pairs that made one lane each or two, and these
		// stood in the queue of a slow link with two packets each and sent half of it twice.
		// Nor do they need twice as many because the search has tried ten, and not eight, which fill the link.
		knee := float64(p.Knee)
		if knee > several*flows*math.Ceil(want/flows) {
			want = several * ratio
		}
		want = min(want, knee)
	case p.Knee > 0:
		want = float64(p.Knee)
	}
	want = max(want, all*p.RTT.Seconds()/laneBytes)
	return int(min(max(math.Ceil(want/flows), 1), maxLane))
}

// part returns what this pair of hosts gets of p when Flows pairs share it, in bytes a second.
func (p Path) part() float64 {
	return p.partOf(p.Flows)
}

// partOf returns what each of n hosts, or pairs of them, gets of p, in bytes a second: no more than a port takes.
func (p Path) partOf(n int) float64 {
	return min(float64(p.link())/float64(max(n, 1)), float64(p.capacity()))
}

// portion returns what lanes lanes of this pair get of that, in bytes a second.
func (p Path) portion(lanes int) float64 {
	return min(float64(p.Rate)*float64(max(lanes, 1)), p.part())
}

// share returns the bytes that lanes lanes to the host may have in flight at first: what fills their part of
// the path, and twice that where something holds each flow. A flow that is held has a queue of its
// own or none, and answers that wait behind data of their own direction make its round trips longer than RTT.
func (p Path) share(lanes int) float64 {
	bytes := p.portion(lanes) * p.RTT.Seconds()
	if p.held() {
		bytes *= 2
	}
	return bytes
}

// slowBack is how many times faster than back a path is at least whose answers wait for what comes back.
const slowBack = 2

// answersLate reports whether answers are late because what comes the other way stands in a longer queue than what goes this one, and not because they, or what they answer, were
// lost.
func (p Path) answersLate() bool {
	return p.Back > 0 && p.capacity() >= slowBack*p.Back && p.Loss < lateLoss
}

// hinders reports whether the path is so much slower than back that what comes there waits for answers behind what the least windows hold here, and for long.
func (p Path) hinders() bool {
	return p.known() && p.Back >= yieldingBack*p.capacity() && p.capacity().Time(int64(max(p.Flows, 1))*leastSlices*leastSlice) >= longTrips*p.RTT
}

// crowdedTrip is the part of a round trip that the least windows must fill for it. Of a fifth, a whole one and four, drawn grids took 0.4 to 1 % longer with the second and 1 to 3 % with the third (docs/design/lanes.md).
const crowdedTrip = 4

// crowded reports whether the least windows of several pairs of hosts that share a path which one flow fills are much of what it holds in a round trip, or more: then they stand in its queue, however
// little each of them has under way.
func (p Path) crowded() bool {
	return p.known() && !p.held() && p.Flows > 1 && p.capacity().Time(int64(p.Flows)*leastSlices*leastSlice) >= p.RTT/crowdedTrip
}

// yieldingBack is how many times as fast the way back is at least. With twice, alltoalls of three and four sites on sixty grids took 0.3 to 2 % longer, with three times no longer (docs/design/lanes.md).
const yieldingBack = 3

// longTrips is how many round trips make an answer late enough for that. Where the way back is twice as fast and round trips last 40 to 190 ms nothing is gained, and slices of a packet cost more answers.
const longTrips = 4

// lateLoss is the share of lost packets from which on answers are late because of repairs.
const lateLoss = 1. / 500

// held reports whether something holds each flow, so that it takes several to fill the path.
func (p Path) held() bool { return float64(p.capacity()) >= several*float64(p.Rate) }
