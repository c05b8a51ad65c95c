package probe

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// believed is an estimate of rate that was measured at.
func believed(rate netmap.BytesPerSec, at time.Time) netmap.Estimate {
	return netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: rate, Source: netmap.SourceProbed, Measured: at}
}

func TestObservation(t *testing.T) {
	now := time.Unix(1000, 0)
	// One second at 1 MB/s, the second in a row.
	base := Observation{Peer: "b", Bytes: 1e6, Duration: time.Second, RTT: 100 * time.Millisecond, End: now, Network: true, Before: 1e6, Mean: 1e6}
	for _, tc := range []struct {
		name  string
		edit  func(*Observation)
		known netmap.Estimate
		want  verdict
	}{
		{"shared, not over the estimate", func(o *Observation) {}, believed(0.95e6, now), verdict{}},
		{"shared, over the estimate twice", func(o *Observation) {}, believed(0.8e6, now), verdict{rate: 1e6}},
		{"shared, over the estimate once", func(o *Observation) { o.Before = 0 }, believed(0.5e6, now), verdict{}},
		{"shared, the lower of two counts", func(o *Observation) { o.Before = 0.7e6; o.Mean = 0.7e6 }, believed(0.5e6, now), verdict{rate: 0.7e6}},
		{"shared, the one before was no more", func(o *Observation) { o.Before = 0.5e6; o.Mean = 0.5e6 }, believed(0.5e6, now), verdict{}},
		{"shared, far under the estimate", func(o *Observation) {}, believed(4e6, now), verdict{}},
		{"shared by few, far under the estimate", func(o *Observation) { o.Sharers = 2 }, believed(4e6, now), verdict{suspect: true}},
		{"shared by many, far under the estimate", func(o *Observation) { o.Sharers = 8 }, believed(4e6, now), verdict{}},
		{"shared, never measured", func(o *Observation) {}, netmap.Estimate{}, verdict{}},
		{"alone, as believed a moment ago", func(o *Observation) { o.Alone = true }, believed(1.01e6, now.Add(-time.Second)), verdict{}},
		{"alone, as believed a while ago", func(o *Observation) { o.Alone = true }, believed(1.01e6, now.Add(-time.Minute)), verdict{rate: 1e6, exact: true}},
		{"alone, never measured", func(o *Observation) { o.Alone = true }, netmap.Estimate{}, verdict{rate: 1e6, exact: true}},
		{"alone, less than believed", func(o *Observation) { o.Alone = true; o.Sharers = 1 }, believed(1.3e6, now), verdict{rate: 1e6, exact: true}},
		{"alone, a quarter of what is believed", func(o *Observation) { o.Alone = true; o.Sharers = 1 }, believed(4e6, now), verdict{rate: 1e6, exact: true, suspect: true}},
		{"alone, two that do not agree", func(o *Observation) { o.Alone = true; o.Before = 1.3e6 }, believed(4e6, now), verdict{}},
		{"under its mean", func(o *Observation) { o.Mean = 2e6 }, believed(1e6, now), verdict{suspect: true}},
		{"under its mean, but briefly", func(o *Observation) { o.Mean = 2e6; o.Duration /= 10; o.Bytes /= 10 }, believed(1e6, now), verdict{}},
		{"under its mean, of a few packets", func(o *Observation) { o.Bytes = 5000; o.Mean = 20000; o.Sharers = 8 }, believed(1e5, now), verdict{}},
		{"under its mean, of a few packets, alone", func(o *Observation) { o.Bytes = 5000; o.Mean = 20000; o.Sharers = 1 }, believed(1e4, now), verdict{suspect: true}},
		{"stands still", func(o *Observation) { o.Bytes = 0 }, believed(1e6, now), verdict{suspect: true}},
		{"eight short round trips", func(o *Observation) { o.Duration /= 10; o.Bytes /= 10; o.RTT = 12 * time.Millisecond }, believed(0.5e6, now), verdict{rate: 1e6}},
		{"seven round trips", func(o *Observation) { o.Duration /= 10; o.Bytes /= 10; o.RTT = 14 * time.Millisecond }, believed(0.5e6, now), verdict{}},
		{"few bytes", func(o *Observation) { o.Bytes /= 20; o.Before /= 20; o.Mean = 0 }, believed(1e4, now), verdict{}},
	} {
		o := base
		tc.edit(&o)
		got := o.judge(tc.known)
		if got.exact != tc.want.exact || got.suspect != tc.want.suspect || math.Abs(float64(got.rate-tc.want.rate)) > 1 {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestObservationBounds: what is shared never lowers an estimate, what is recorded lies
// between the two observations, and nothing that cannot be gets through.
func TestObservationBounds(t *testing.T) {
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 70))
		now := time.Unix(1000, 0)
		any := func() netmap.BytesPerSec {
			return netmap.BytesPerSec([]float64{0, 1e5 * (1 + rng.Float64()), 1e6 * rng.Float64(), math.NaN(), -1, math.Inf(1)}[rng.IntN(6)])
		}
		o := Observation{
			Bytes: rng.Int64N(1 << 21), Duration: time.Duration(rng.Int64N(int64(3 * time.Second))), RTT: time.Duration(rng.Int64N(int64(time.Second))),
			End: now, Network: rng.IntN(4) > 0, Alone: rng.IntN(2) > 0, Sharers: rng.IntN(5), Before: any(), Mean: any(),
		}
		known := believed(netmap.BytesPerSec(1e6*rng.Float64()), now.Add(-time.Duration(rng.Int64N(int64(time.Hour)))))
		if !o.telling() {
			continue
		}
		rate := netmap.BytesPerSec(float64(o.Bytes) / o.Duration.Seconds())
		v := o.judge(known)
		switch {
		case !(v.rate >= 0) || math.IsInf(float64(v.rate), 0):
			t.Errorf("seed %d: rate %v of %+v", seed, v.rate, o)
		case v.rate > 0 && (v.rate < min(rate, o.Before) || v.rate > max(rate, o.Before)):
			t.Errorf("seed %d: %v recorded of %v and %v", seed, v.rate, o.Before, rate)
		case v.rate > 0 && !v.exact && v.rate <= known.Bandwidth:
			t.Errorf("seed %d: a lower bound of %v for an estimate of %v", seed, v.rate, known.Bandwidth)
		case v.exact && !o.Alone:
			t.Errorf("seed %d: exact and not alone: %+v", seed, o)
		}
	}
	for _, o := range []Observation{
		{Network: true},
		{Network: true, Duration: -1},
		{Network: true, Duration: time.Second, Bytes: -1},
		{Network: true, Duration: time.Second, Mean: netmap.BytesPerSec(math.NaN())},
		{Network: true, Duration: time.Second, Before: netmap.BytesPerSec(math.Inf(1))},
		{Network: true, Duration: time.Second, Sharers: -1},
		{Duration: time.Second},
	} {
		if o.telling() {
			t.Errorf("taken: %+v", o)
		}
	}
}

// deaf is an endpoint on which nothing happens.
type deaf struct{ Endpoint }

func (deaf) HandlePackets(lane.PacketKind, func([]byte, net.Addr, time.Time))         {}
func (deaf) HandleStreams(lane.StreamKind, func(ctx context.Context, s *lane.Stream)) {}
func (deaf) Stats(string) (st quic.ConnectionStats, connected bool)                   { return st, false }

// TestObserve: what follows from an observation reaches the map, and the list of suspects.
func TestObserve(t *testing.T) {
	var last netmap.Estimate
	records := 0
	p, err := New(Config{
		Self:     Peer{"a", "A"},
		Peers:    func() []Peer { return []Peer{{"b", "B"}} },
		Endpoint: deaf{},
		Record: func(from, to string, e netmap.Estimate) {
			if from != "a" || to != "b" {
				t.Errorf("%s→%s was not observed", from, to)
			}
			last = e
			records++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.look()
	o := Observation{Peer: "b", Bytes: 1e6, Duration: time.Second, End: time.Now(), Network: true, Sharers: 3, Before: 1e6, Mean: 1e6}
	p.Observe(o)
	if records != 0 {
		t.Errorf("a lower bound of nothing was recorded: %+v", last)
	}
	alone := o
	alone.Alone, alone.Sharers = true, 1
	p.Observe(alone)
	if records != 1 || math.Abs(float64(last.Bandwidth)-1e6) > 1e4 || last.Source != netmap.SourceObserved {
		t.Errorf("alone, 1 MB/s: %d records, %+v", records, last)
	}
	o.Bytes, o.Before = 0.7e6, 0.7e6
	p.Observe(o)
	if records != 1 {
		t.Errorf("a lower bound of 0.7 MB/s under an estimate of 1 MB/s was recorded: %+v", last)
	}
	suspected := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.peers["b"].suspected.IsZero()
	}
	if suspected() {
		t.Error("nothing has fallen, and b is suspected")
	}
	o.Bytes, o.Before = 0.3e6, 0
	p.Observe(o)
	if records != 1 || !suspected() {
		t.Errorf("a fall to 0.3 of the mean: suspected %v, %d records", suspected(), records)
	}
}
