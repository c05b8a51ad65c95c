package probe

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// bulkLane is the first lane that bulk probes use. Exchanges use those below 64, so a
	// probe neither finds the window that an exchange has left nor closes its lanes, and
	// each begins with slow start, without which a flow may take minutes to fill its path.
	bulkLane = 64

	// What a session may ask for, and what stands for 0.
	maxBulkBytes = 2 << 30 // 1.7 s of 10 Gbit/s
	maxBulkTime  = 30 * time.Second
	bulkBytes    = 64 << 20
	bulkTime     = 10 * time.Second
	bulkSpread   = 0.05

	// bulkQueue is what stands in a queue when a probe ends, about, and is sent for nothing.
	bulkQueue = 64 * userPayload

	// A point of a search is good enough at searchSpread, or after 1/searchSteps of the time;
	// from 1 lane to maxLanes there are 7. Where losses decide, twice the lanes get twice as much,
	// and 9 of them are enough to see it.
	searchSpread = 0.17
	searchSteps  = 8
	// searchTrips is how many round trips a point may take at least: some ten for its lanes to get under way, and twice what a
	// full link is read for.
	searchTrips = 42

	// bulkChunk is how much is written at once: little beside what the slowest link carries
	// in a round trip would cost a fast one much.
	bulkChunk = 32 << 10
	// bulkPace is the least time between two reports of the receiver, bulkPaceMost the
	// longest, see nextReport. In 20 ms 10 Gbit/s are 25 MB already.
	bulkPace     = 2 * time.Millisecond
	bulkPaceMost = 250 * time.Millisecond
	// bulkWatch is how often either side looks whether the session may go on.
	bulkWatch = 20 * time.Millisecond
)

// Why a bulk session of this host ended before it knew enough. That it has yielded is what [yieldWhen] says as well, which
// watches most sessions beside it: whichever is first, the caller gets a [BusyError].
var (
	errYielded  error = &BusyError{Retry: busyRetry, Why: "exchange"}
	errBulkLate       = errors.New("the time for a bulk probe is up")
)

// bulkOptions say how much a bulk probe may do.
type bulkOptions struct {
	glance   bool          // see glance.go
	joint    *jointly      // see joint.go; nil: this pair sends alone
	lanes    int           // 1: what one flow gets; more: up to so many, until the knee. 0 means 1
	one      lanePoint     // what is known of one lane: a search begins with the lanes that fill line. Zero: nothing
	line     float64       // bytes a second of the link, where one is known; 0 unknown
	link     float64       // bytes a second that trains read of the link; 0 unknown
	rtt      time.Duration // round trip that pings found: the lanes' own may never see the path without others' queues. 0 unknown
	bytes    int64         // user bytes, all lanes together. 0 means 64 MiB
	time     time.Duration // from the first byte on. 0 means 10 s
	spread   float64       // relative standard error at which to stop where losses decide. 0 means 0.05
	more     func() bool   // whether to go on; asked every 20 ms. Nil means always
	progress func(step string, bytes int64)
}

func (o bulkOptions) withDefaults() bulkOptions {
	o.lanes = min(max(o.lanes, 1), maxLanes)
	if o.bytes <= 0 {
		o.bytes = bulkBytes
	}
	if o.time <= 0 {
		o.time = bulkTime
	}
	if !(o.spread > 0) {
		o.spread = bulkSpread
	}
	o.bytes, o.time = min(o.bytes, maxBulkBytes), min(o.time, maxBulkTime)
	if o.more == nil {
		o.more = func() bool { return true }
	}
	if o.progress == nil {
		o.progress = func(string, int64) {}
	}
	return o
}

// bulkResult is what a bulk probe found out about one direction. Rates are of user bytes.
type bulkResult struct {
	Rate   netmap.BytesPerSec // what one flow gets in the steady state; 0: not seen, or known before
	Spread float64            // relative standard error of Rate, as it is also where not Enough
	Enough bool               // false: a cap ended it, and Rate is what was seen until then
	Shaped bool               // a token bucket ran empty under it

	// What several lanes get together; zero where only one was asked for. The search has
	// met the knee if Knee is set; otherwise Capacity is a lower bound.
	Curve    []lanePoint
	Capacity netmap.BytesPerSec
	Lanes    int // the least number that gets 95 % of Capacity; 0 where the search was cut short
	Knee     bool

	// Loss is the share of the packets of the data lanes that QUIC declared lost: those
	// that the flows' own growth pushed out of a queue as well as those the path loses.
	Loss float64
	// Of one flow that losses held: the packets of its steady state that arrived, and those that were lost. No
	// queue stood, so the path lost them.
	Steady, Lost float64
	// RTT is the least round trip of the data lanes, Loaded the last smoothed one: what
	// Loaded has above RTT is queue that the probe itself has made.
	RTT, Loaded time.Duration
	// Limited says that neither a queue nor a loss was seen at the end: this host, the
	// receiver or its windows were slower than the path, and the rates are lower bounds.
	Limited bool
	Bytes   int64 // sent for it, UDP payload, what was lost included
	Took    time.Duration
}

// bulkCost returns about how many bytes a bulk probe with one lane sends over a link that it
// fills: slow start and its overshoot, about 10 bandwidth-delay products and the queue, and then
// what readSteady wants to see. Where losses decide it goes on up to its cap: it takes about 1/(4s²)
// losses for a spread of s.
func bulkCost(rate netmap.BytesPerSec, rtt time.Duration) int64 {
	p := bulkPath{rtt: rtt, lanes: 1, packet: userPayload}
	trip := float64(rate) * rtt.Seconds()
	read := max(steadyParts*steadyTrips*trip, steadyParts*steadyPackets*userPayload, p.chance(float64(rate)))
	return int64(min(10*trip+bulkQueue+read, maxBulkBytes))
}

// A dataStream is a stream of a bulk transfer; a *lane.Stream is one.
type dataStream interface {
	io.Writer
	Stats() quic.ConnectionStats
	Abort()
}

// bulk measures what one flow to peer gets, or several together, with real lanes under
// real congestion control. The caller holds this host's slot and whatever lease the link
// needs; the peer's slot is asked for here. It takes about 16 round trips and as many
// bandwidth-delay products a number of lanes, and a few of both for slow start. The result
// holds what was sent, and rates that were read, also where an error is returned.
func (p *Prober) bulk(ctx context.Context, peer Peer, o bulkOptions) (bulkResult, error) {
	o = o.withDefaults()
	s, err := p.cfg.Endpoint.Open(ctx, peer.Name, 0, lane.StreamProbe)
	if err != nil {
		return bulkResult{}, err
	}
	defer p.cfg.Endpoint.CloseLanes(peer.Name, bulkLane)
	r := &bulkRun{o: o, open: func(ctx context.Context, n int) (dataStream, error) {
		return p.cfg.Endpoint.Open(ctx, peer.Name, bulkLane+n, lane.StreamProbe)
	}}
	return r.run(ctx, s)
}
