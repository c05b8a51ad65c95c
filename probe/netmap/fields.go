package netmap

import (
	"fmt"
	"math"
	"time"
)

// What an estimate may hold at most. More is a broken clock, a wrong unit or malice: one
// NaN in a gossiped map has taken down whole clusters of other systems (consul#3023).
const (
	MaxRate     BytesPerSec = 10e12 / 8 // 10 Tbit/s
	MaxLatency              = 60 * time.Second
	MaxLanes                = 1 << 16
	MaxReadings             = 255 // more readings are no more certain; counters stop here
	MaxLossOf               = 1 << 24
)

// Check reports the first value of e that no network can have, quoting it. It looks only
// at the fields that are known, and not at the age.
func (e Estimate) Check() error {
	if e.Known >= fieldEnd {
		return fmt.Errorf("unknown field in %#x", uint16(e.Known))
	}
	if e.Source > SourceObserved {
		return fmt.Errorf("unknown source %d", e.Source)
	}
	for _, d := range []struct {
		field Field
		name  string
		v     time.Duration
	}{
		{FieldLatency, "latency", e.Latency}, {FieldVariation, "variation", e.Variation},
		{FieldGap, "gap", e.Gap}, {FieldSendOverhead, "send overhead", e.SendOverhead},
	} {
		if e.Has(d.field) && (d.v < 0 || d.v > MaxLatency) {
			return fmt.Errorf("%s %v is not in 0 … %v", d.name, d.v, MaxLatency)
		}
	}
	for _, r := range []struct {
		field Field
		name  string
		v     BytesPerSec
	}{{FieldBandwidth, "bandwidth", e.Bandwidth}, {FieldCapacity, "capacity", e.Capacity}, {FieldLine, "line rate", e.Line}, {FieldCarried, "carried", e.Carried}} {
		if e.Has(r.field) && !(r.v >= 1 && r.v <= MaxRate) {
			return fmt.Errorf("%s %v B/s is not in 1 B/s … %g Mbit/s", r.name, float64(r.v), MaxRate.Mbps())
		}
	}
	if e.Has(FieldLoss) && !(e.Loss >= 0 && e.Loss <= 1) {
		return fmt.Errorf("loss %v is not in 0 … 1", e.Loss)
	}
	if e.LossOf < 0 || e.LossOf > MaxLossOf {
		return fmt.Errorf("loss of %d packets is not in 0 … %d", e.LossOf, MaxLossOf)
	}
	if e.Has(FieldLanes) && (e.Lanes < 1 || e.Lanes > MaxLanes) {
		return fmt.Errorf("%d lanes is not in 1 … %d", e.Lanes, MaxLanes)
	}
	if !(e.Spread >= 0 && e.Spread <= maxSpread) {
		return fmt.Errorf("spread %v is not in 0 … %d", e.Spread, maxSpread)
	}
	if e.Readings < 0 || e.Readings > MaxReadings {
		return fmt.Errorf("%d readings is not in 0 … %d", e.Readings, MaxReadings)
	}
	return nil
}

// maxSpread bounds the relative spread; samples a thousand times apart say nothing.
const maxSpread = 1000

// clean returns e without what Known does not vouch for, so that equal beliefs compare equal.
func (e Estimate) clean() Estimate {
	if !e.Has(FieldLatency) {
		e.Latency = 0
	}
	if !e.Has(FieldBandwidth) {
		e.Bandwidth, e.Spread, e.Readings, e.Source = 0, 0, 0, SourceUnknown
	}
	if !e.Has(FieldCapacity) {
		e.Capacity = 0
	}
	if !e.Has(FieldLanes) {
		e.Lanes = 0
	}
	if !e.Has(FieldLoss) {
		e.Loss, e.LossOf = 0, 0
	}
	if !e.Has(FieldGap) {
		e.Gap = 0
	}
	if !e.Has(FieldSendOverhead) {
		e.SendOverhead = 0
	}
	if !e.Has(FieldVariation) {
		e.Variation = 0
	}
	if !e.Has(FieldLine) {
		e.Line = 0
	}
	if !e.Has(FieldCarried) {
		e.Carried = 0
	}
	return e
}

// overlay returns e with the known fields of o written over it. The time of measuring is
// the later one: it dates the newest sample.
func (e Estimate) overlay(o Estimate) Estimate {
	if o.Has(FieldLatency) {
		e.Latency = o.Latency
	}
	if o.Has(FieldBandwidth) {
		e.Bandwidth, e.Spread, e.Readings, e.Source = o.Bandwidth, o.Spread, o.Readings, o.Source
	}
	if o.Has(FieldCapacity) {
		e.Capacity = o.Capacity
	}
	if o.Has(FieldLanes) {
		e.Lanes = o.Lanes
	}
	if o.Has(FieldLoss) {
		e.Loss, e.LossOf = o.Loss, o.LossOf
	}
	if o.Has(FieldGap) {
		e.Gap = o.Gap
	}
	if o.Has(FieldSendOverhead) {
		e.SendOverhead = o.SendOverhead
	}
	if o.Has(FieldVariation) {
		e.Variation = o.Variation
	}
	if o.Has(FieldLine) {
		e.Line = o.Line
	} else if o.Has(FieldBandwidth) {
		e.Known &^= FieldLine // it belongs to the bandwidth that was replaced
		e.Line = 0
	}
	if o.Has(FieldCarried) {
		e.Carried = o.Carried
	}
	e.Known |= o.Known
	if o.Measured.After(e.Measured) {
		e.Measured = o.Measured
	}
	return e
}

// only returns e reduced to the fields in f.
func (e Estimate) only(f Field) Estimate {
	e.Known &= f
	return e.clean()
}

// lossUnit and spreadUnit are the steps of the shares in a delta, a fraction of 1.
const (
	lossUnit   = 1e9
	spreadUnit = 1e4
)

// rounded returns e, which must pass Check, as it arrives after a journey in a delta.
func (e Estimate) rounded() Estimate {
	e = e.clean()
	e.Bandwidth = BytesPerSec(math.Round(float64(e.Bandwidth)))
	e.Capacity = BytesPerSec(math.Round(float64(e.Capacity)))
	e.Line = BytesPerSec(math.Round(float64(e.Line)))
	e.Carried = BytesPerSec(math.Round(float64(e.Carried)))
	e.Loss = math.Round(e.Loss*lossUnit) / lossUnit
	e.Spread = math.Round(e.Spread*spreadUnit) / spreadUnit
	e.Measured = time.UnixMicro(e.Measured.UnixMicro()).UTC() // also drops the monotonic reading
	return e
}
