package netmap

import (
	"errors"
	"math"
	"time"
)

// BytesPerSec is a rate of payload bytes.
type BytesPerSec float64

// Mbps is 10^6 bits a second, the unit in which files and tables give rates.
const Mbps BytesPerSec = 1e6 / 8

// Mbps returns r in 10^6 bits a second.
func (r BytesPerSec) Mbps() float64 { return float64(r / Mbps) }

// Forever is what [BytesPerSec.Time] answers where no finite answer fits: a rate of zero,
// or centuries. It is half of the largest Duration, so that a latency or a start time
// can be added to it without wrapping round to the past.
const Forever = time.Duration(math.MaxInt64 / 2)

// Time returns how long size bytes take at rate r, rounded to a nanosecond; no bytes take
// no time. It returns [Forever] if r is not above zero or the time does not fit.
func (r BytesPerSec) Time(size int64) time.Duration {
	if size <= 0 {
		return 0
	}
	// The conversion rounds the product: else a compiler may fuse product and sum on some
	// processors (arm64) and not on others, and ties be broken differently on the two.
	ns := float64(float64(size)/float64(r)*1e9) + 0.5
	if !(r > 0 && ns < float64(Forever)) { // also catches NaN
		return Forever
	}
	return time.Duration(ns)
}

// ErrNotMeasured is returned, wrapped with the pair, where an estimate is missing.
var ErrNotMeasured = errors.New("not measured")

// Field names one part of an [Estimate]; values combine into a set.
type Field uint16

// The parts of an estimate that may or may not be known.
const (
	FieldLatency Field = 1 << iota
	FieldBandwidth
	FieldCapacity
	FieldLanes
	FieldLoss
	FieldGap
	FieldSendOverhead
	FieldVariation
	FieldLine
	FieldCarried

	fieldEnd // one past the last
)

// Source says where an estimate comes from, weakest first.
type Source uint8

// The sources of an estimate.
const (
	SourceUnknown   Source = iota
	SourcePredicted        // inferred from like pairs; never spread as a measurement
	SourceDeclared         // read from a grid file
	SourceProbed           // an active probe
	SourceObserved         // seen on a real exchange
)

// An Estimate is what is believed of one ordered host pair.
// A field counts only if Known holds it: not measured is never zero.
type Estimate struct {
	Known        Field
	Latency      time.Duration // one way; half of the round trip where measured
	Variation    time.Duration // of the round trip: its smoothed mean deviation (RFC 9002, section 5.3)
	Bandwidth    BytesPerSec   // what one flow gets in the steady state
	Line         BytesPerSec   // rate of the narrowest link, as a packet train reads it; known only beside a Bandwidth that was itself measured by a bulk transfer
	Capacity     BytesPerSec   // what many flows get together
	Lanes        int           // flows that reach Capacity
	Carried      BytesPerSec   // what the link carried of exchanges at once, of the lanes of a glance, or of several pairs of hosts that sent at once, as hosts at its end have counted: many flows get that at least. Kept until somebody has measured Capacity; beside one that is of ports, see PortHolds, as what many pairs of hosts get at least
	Loss         float64       // share of packets lost, 0 … 1
	LossOf       int           // packets that Loss was counted over, at most MaxLossOf; 0: not known
	Gap          time.Duration // g: least time between two message starts (LogP)
	SendOverhead time.Duration // os: the sender's processor is busy this long (LogP)

	Spread   float64   // relative spread of the bandwidth samples, 0 = none seen
	Readings int       // that the bandwidth stands on, at most MaxReadings; 0: not known
	Measured time.Time // when the newest sample was taken, on the measuring host's clock
	Source   Source    // of the bandwidth
}

// Has reports whether every field in f is known.
func (e Estimate) Has(f Field) bool { return e.Known&f == f }

// LossEnough is of how many packets a share of losses says something by itself: of 400 one lost is 0.25 %.
const LossEnough = 400

// TellsLoss reports whether e's share of lost packets says something by itself: it was counted over enough packets, or was declared. What
// trains and exchanges count is over fewer at first, and tells of the link together with what all pairs of two sites have counted.
func (e Estimate) TellsLoss() bool {
	return e.Has(FieldLoss) && (e.LossOf == 0 || e.LossOf >= LossEnough)
}

// String names the source for a person.
func (s Source) String() string {
	switch s {
	case SourcePredicted:
		return "predicted"
	case SourceDeclared:
		return "declared"
	case SourceProbed:
		return "probed"
	case SourceObserved:
		return "observed"
	}
	return "unknown"
}
