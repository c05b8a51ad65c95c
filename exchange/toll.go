package exchange

import (
	"time"

	"github.com/quic-go/quic-go"
)

// A Toll tells how many packets a lane has sent to a peer while hardly anything stood in a queue on the way there and back, and how many of these were lost. What is lost at
// a full queue tells of the exchange. What is lost beside an empty one tells of the path, and exchanges send far more packets than probes do.
type Toll struct {
	Peer       string
	Sent, Lost uint64
}

const (
	// quietPackets of quietPacket bytes at the path's capacity, at most quietMost and a quietPart-th of its round trip, is how much longer than the empty way round trips
	// may be. A queue that drops what comes is at 64 packets, mostly: where such queues were full for minutes round trips were longer by 32 ms and
	// more whenever a packet was lost, and where links lose 2 % the share was much the same below 4 ms and up to 16 (docs/design/measuring.md). Links so fast that this is less than round trips
	// vary by are left to probes.
	quietPackets = 24
	quietPacket  = 1250
	quietMost    = 16 * time.Millisecond
	quietPart    = 8
)

// A tally counts for a [Toll]. It does no I/O and reads no clock.
type tally struct {
	path       Path   // what the map says of the way; nothing is counted where that is not known
	sent, lost uint64 // of the connection at the last look
	calm       bool   // there was one, and it saw no queue
	count      Toll
}

// look takes what the connection has counted since it was opened. Packets count from one look that saw no queue to the next: news of a loss and of the queue
// that it was for come with the same acknowledgements.
func (t *tally) look(st quic.ConnectionStats) {
	if !t.path.known() {
		return
	}
	calm := max(st.LatestRTT, st.SmoothedRTT) <= min(st.MinRTT, t.path.RTT)+t.path.quiet()
	if sent, lost := st.PacketsSent-t.sent, st.PacketsLost-t.lost; t.calm && calm && st.PacketsSent >= t.sent && st.PacketsLost >= t.lost && lost <= sent {
		t.count.Sent, t.count.Lost = t.count.Sent+sent, t.count.Lost+lost
	}
	t.sent, t.lost, t.calm = st.PacketsSent, st.PacketsLost, calm
}

// again begins with another connection.
func (t *tally) again() { t.calm = false }

// take returns what was counted since it was called last.
func (t *tally) take() Toll {
	c := t.count
	t.count.Sent, t.count.Lost = 0, 0
	return c
}

// quiet is how much longer than RTT round trips of p may be while nothing to speak of stands in a queue.
func (p Path) quiet() time.Duration {
	return min(p.capacity().Time(quietPackets*quietPacket), quietMost, p.RTT/quietPart)
}
