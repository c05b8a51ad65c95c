package exchange

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Sample tells what one lane of a running exchange carried for a while. The bytes are
// those of the receiver's count: what a socket has accepted measures a buffer.
//
// The samples of a lane follow each other without overlap. What came before the first
// answer, after the last one, and around a broken stream is in none of them.
type Sample struct {
	Exchange ID
	Hosts    []string // all hosts of the exchange; not to be modified
	Peer     string   // to whom
	Lane     int

	Begin    time.Time     // when the answer arrived that the sample starts with
	Duration time.Duration // over 0
	Bytes    int64         // payload that the peer has read in that time
	Limit    Limit
	// RTT is the transport's round trip, queues included; zero if it is unknown.
	RTT time.Duration

	// PeerLanes and SiteLanes are the most lanes of this host that had data under way at
	// the same time, in any exchange, this one included: to the peer, and to what
	// [Config.Site] says of it. What other hosts send the same way is not known here.
	PeerLanes, SiteLanes int

	// Before is the rate of the sample before, and Mean that of the last 10 s or so, of
	// samples of this lane that the network limited while as many lanes were active. Zero
	// if there is none. A fall below the mean is news of the way, not of this exchange.
	Before, Mean netmap.BytesPerSec
}

// Rate is what the lane carried.
func (s Sample) Rate() netmap.BytesPerSec {
	return netmap.BytesPerSec(float64(s.Bytes) / s.Duration.Seconds())
}

// A Limit says what kept a lane from being faster.
type Limit uint8

const (
	// Application: there was nothing to send now and then, the peer did not read, a
	// flow-control window was too small, the flow had just begun, or it cannot be told.
	Application Limit = iota
	// Network: there was always something to send, and the congestion window or a queue
	// on the way held it back.
	Network
)

func (l Limit) String() string {
	if l == Network {
		return "network"
	}
	return "application"
}
