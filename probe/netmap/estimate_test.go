package netmap

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTimeSaturates(t *testing.T) {
	for _, tt := range []struct {
		rate BytesPerSec
		size int64
		want time.Duration
	}{
		{1.25 * Mbps, 65536, 419430400 * time.Nanosecond}, // 524288 bit / 1.25 Mbit/s
		{1 * Mbps, 0, 0},
		{0, 0, 0},
		{0, 1, Forever},
		{-1, 1, Forever},
		{BytesPerSec(math.NaN()), 1, Forever},
		{BytesPerSec(math.Inf(1)), 1, 0},
		{1e-12, math.MaxInt64, Forever},
	} {
		if got := tt.rate.Time(tt.size); got != tt.want {
			t.Errorf("%v B/s: %d bytes take %v, want %v", float64(tt.rate), tt.size, got, tt.want)
		}
	}
	if Forever+MaxLatency < Forever {
		t.Error("a latency added to Forever wraps round")
	}
}

func TestTransferTimeOfUnmeasuredPair(t *testing.T) {
	s := NewSnapshot(1, []Host{{Name: "a"}, {Name: "b"}}, make([]Estimate, 4))
	if _, err := s.TransferTime(0, 1, 1); !errors.Is(err, ErrNotMeasured) || !strings.Contains(err.Error(), "a→b") {
		t.Errorf("got %v, want ErrNotMeasured that names a→b", err)
	}
	if got := s.Gap(0, 1, 1); got != Forever {
		t.Errorf("gap without a bandwidth is %v, want Forever", got)
	}
}

func TestCheckQuotesTheValue(t *testing.T) {
	good := Estimate{
		Known: fieldEnd - 1, Latency: MaxLatency, Bandwidth: MaxRate, Capacity: 1, Line: 1, Carried: 1, Lanes: 1,
		Loss: 1, Gap: 0, SendOverhead: 1, Spread: 0.5, Source: SourceObserved,
	}
	if err := good.Check(); err != nil {
		t.Fatalf("limits themselves are refused: %v", err)
	}
	for _, tt := range []struct {
		quote string
		spoil func(*Estimate)
	}{
		{"latency -1ns", func(e *Estimate) { e.Latency = -1 }},
		{"latency 1m0.000000001s", func(e *Estimate) { e.Latency = MaxLatency + 1 }},
		{"bandwidth NaN", func(e *Estimate) { e.Bandwidth = BytesPerSec(math.NaN()) }},
		{"bandwidth 0", func(e *Estimate) { e.Bandwidth = 0 }},
		{"bandwidth +Inf", func(e *Estimate) { e.Bandwidth = BytesPerSec(math.Inf(1)) }},
		{"capacity -5", func(e *Estimate) { e.Capacity = -5 }},
		{"loss 1.5", func(e *Estimate) { e.Loss = 1.5 }},
		{"loss NaN", func(e *Estimate) { e.Loss = math.NaN() }},
		{"0 lanes", func(e *Estimate) { e.Lanes = 0 }},
		{"gap -1s", func(e *Estimate) { e.Gap = -time.Second }},
		{"send overhead 2m0s", func(e *Estimate) { e.SendOverhead = 2 * time.Minute }},
		{"spread NaN", func(e *Estimate) { e.Spread = math.NaN() }},
		{"source 9", func(e *Estimate) { e.Source = 9 }},
		{"variation -1ns", func(e *Estimate) { e.Variation = -1 }},
		{"256 readings", func(e *Estimate) { e.Readings = 256 }},
		{"loss of 16777217 packets", func(e *Estimate) { e.LossOf = MaxLossOf + 1 }},
		{"loss of -1 packets", func(e *Estimate) { e.LossOf = -1 }},
		{"field in 0x400", func(e *Estimate) { e.Known = fieldEnd }},
	} {
		e := good
		tt.spoil(&e)
		if err := e.Check(); err == nil || !strings.Contains(err.Error(), tt.quote) {
			t.Errorf("got %v, want an error with %q", err, tt.quote)
		}
	}
}

// The shortcut for a pair that only one end has reported says what the rule for two does.
func TestJoinOfOneReport(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		e, nothing := randomEstimate(rng), Estimate{}
		if got, want := join(e, nothing), joinBoth(e, nothing); got != want {
			t.Fatalf("seed %d: only the sender has reported: %+v, want %+v", seed, got, want)
		}
		if got, want := join(nothing, e), joinBoth(nothing, e); got != want {
			t.Fatalf("seed %d: only the receiver has reported: %+v, want %+v", seed, got, want)
		}
	}
}

// randomEstimate knows a random set of fields, within the limits, measured around t0.
func randomEstimate(rng *rand.Rand) Estimate {
	e := Estimate{
		Known:        Field(rng.IntN(int(fieldEnd))),
		Latency:      time.Duration(rng.Int64N(int64(MaxLatency))),
		Bandwidth:    BytesPerSec(math.Exp(rng.Float64() * math.Log(float64(MaxRate)))),
		Capacity:     1 + BytesPerSec(rng.Float64()*1e9),
		Line:         1 + BytesPerSec(rng.Float64()*1e9),
		Carried:      1 + BytesPerSec(rng.Float64()*1e9),
		Lanes:        1 + rng.IntN(MaxLanes),
		Loss:         rng.Float64(),
		LossOf:       rng.IntN(MaxLossOf + 1),
		Gap:          time.Duration(rng.Int64N(1e9)),
		SendOverhead: time.Duration(rng.Int64N(1e6)),
		Variation:    time.Duration(rng.Int64N(1e9)),
		Spread:       rng.Float64(),
		Readings:     rng.IntN(MaxReadings + 1),
		Measured:     t0.Add(time.Duration(rng.Int64N(1e12) - 1e12)),
		Source:       SourceDeclared + Source(rng.IntN(3)),
	}
	return e.clean()
}
