package netmap

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// appendEstimate appends e as a batch of version v carries it.
func appendEstimate(dst []byte, v Version, e Estimate) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.Source)<<knownBits|uint64(e.Known))
	dst = binary.AppendVarint(dst, int64(v)-e.Measured.UnixMicro())
	for f := FieldLatency; f < fieldEnd; f <<= 1 {
		if e.Has(f) {
			dst = binary.AppendUvarint(dst, wireValue(e, f))
		}
	}
	if e.Has(FieldBandwidth) {
		dst = binary.AppendUvarint(dst, uint64(e.Spread*spreadUnit+0.5))
		dst = binary.AppendUvarint(dst, uint64(e.Readings))
	}
	if e.Has(FieldLoss) {
		dst = binary.AppendUvarint(dst, uint64(e.LossOf))
	}
	return dst
}

// estimate reads what appendEstimate wrote.
func (r *wireReader) estimate(v Version) (e Estimate) {
	head := r.number(1<<(knownBits+3) - 1)
	e.Source = Source(head >> knownBits)
	measured := int64(v) - r.varint()
	if measured < 0 || measured > maxVersion {
		r.fail("a time before 1970 or past the end of time")
		return Estimate{}
	}
	e.Measured = time.UnixMicro(measured).UTC()
	for f := FieldLatency; f < fieldEnd; f <<= 1 {
		if Field(head)&f != 0 {
			setWireValue(&e, f, r.number(1<<53))
		}
	}
	if e.Has(FieldBandwidth) {
		e.Spread = float64(r.number(math.MaxUint32)) / spreadUnit
		e.Readings = int(r.number(math.MaxUint16))
	}
	if e.Has(FieldLoss) {
		e.LossOf = int(r.number(math.MaxUint32 >> 1))
	}
	// The same belief has one form: no source without a bandwidth.
	return e.clean()
}

func (r *wireReader) model() *logp.Model {
	b := r.bytes(maxModel)
	if r.err != nil {
		return nil
	}
	m, err := logp.Parse(b)
	if err != nil {
		r.fail("%v", err)
		return nil
	}
	return &m
}

// wireValue returns field f of a rounded estimate as the number on the wire.
func wireValue(e Estimate, f Field) uint64 {
	switch f {
	case FieldLatency:
		return uint64(e.Latency)
	case FieldBandwidth:
		return uint64(e.Bandwidth)
	case FieldCapacity:
		return uint64(e.Capacity)
	case FieldLanes:
		return uint64(e.Lanes)
	case FieldLoss:
		return uint64(e.Loss*lossUnit + 0.5)
	case FieldGap:
		return uint64(e.Gap)
	case FieldVariation:
		return uint64(e.Variation)
	case FieldLine:
		return uint64(e.Line)
	case FieldCarried:
		return uint64(e.Carried)
	default:
		return uint64(e.SendOverhead)
	}
}

// setWireValue is the inverse of wireValue. v is at most 2^53, so no conversion wraps.
func setWireValue(e *Estimate, f Field, v uint64) {
	switch f {
	case FieldLatency:
		e.Latency = time.Duration(v)
	case FieldBandwidth:
		e.Bandwidth = BytesPerSec(v)
	case FieldCapacity:
		e.Capacity = BytesPerSec(v)
	case FieldLanes:
		e.Lanes = int(v)
	case FieldLoss:
		e.Loss = float64(v) / lossUnit
	case FieldGap:
		e.Gap = time.Duration(v)
	case FieldVariation:
		e.Variation = time.Duration(v)
	case FieldLine:
		e.Line = BytesPerSec(v)
	case FieldCarried:
		e.Carried = BytesPerSec(v)
	default:
		e.SendOverhead = time.Duration(v)
	}
	e.Known |= f
}
