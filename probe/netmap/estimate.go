package netmap

import (
	"errors"
	"time"
)

// BytesPerSec is a rate of payload bytes.
type BytesPerSec float64

// Mbps is 10^6 bits a second, the unit in which files and tables give rates.
const Mbps BytesPerSec = 1e6 / 8

// Mbps returns r in 10^6 bits a second.
func (r BytesPerSec) Mbps() float64 { return float64(r / Mbps) }

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
	Bandwidth    BytesPerSec   // what one flow gets in the steady state
	Capacity     BytesPerSec   // what many flows get together
	Lanes        int           // flows that reach Capacity
	Loss         float64       // share of packets lost, 0 … 1
	Gap          time.Duration // g: least time between two message starts (LogP)
	SendOverhead time.Duration // os: the sender's processor is busy this long (LogP)

	Spread   float64   // relative spread of the bandwidth samples, 0 = none seen
	Measured time.Time // when the newest sample was taken, on the measuring host's clock
	Source   Source    // of the bandwidth
}

// Has reports whether every field in f is known.
func (e Estimate) Has(f Field) bool { return e.Known&f == f }
