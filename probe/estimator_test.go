package probe

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const wire = trainPayload + 28 // IPv4 bytes of a train packet

// A path is a synthetic way through the network: what happens to a train between the
// sender's port and the receiver's clock. It is written apart from gridnet, so that
// the estimator does not stand on one emulator's idea of a queue.
type path struct {
	mbps   float64 // of the bottleneck, IP bits
	entry  float64 // Mbit/s at which the train arrives there; 0: at once
	queue  int     // packets that wait before the bottleneck; 0: no limit
	jitter time.Duration
	loss   float64 // behind the bottleneck
	batch  int     // most packets that the reader takes at once; 0: 1
	pauses []pause // of the reader
	bucket int     // bytes that pass at burst Mbit/s first
	burst  float64
	cross  float64 // share of the entry taken by other traffic
}

type pause struct{ at, length time.Duration }

// carry returns the arrivals of a train of n packets.
func (p path) carry(n int, rng *rand.Rand) []arrival {
	unit := func(mbps float64) float64 { return wire * 8 / mbps / 1e6 } // seconds
	var free, tokens float64
	tokens = float64(p.bucket)
	type out struct {
		seq int
		at  float64
	}
	var queued []float64 // departure times of accepted packets
	var outs []out
	for seq := range n {
		in := 0.0
		if p.entry > 0 {
			in = float64(seq) * unit(p.entry)
		}
		if p.queue > 0 {
			waiting := 0
			for _, d := range queued {
				if d > in {
					waiting++
				}
			}
			if waiting > p.queue {
				continue
			}
		}
		mbps := p.mbps
		if tokens >= wire {
			tokens -= wire
			mbps = p.burst
		}
		service := unit(mbps)
		if p.cross > 0 && rng.Float64() < p.cross {
			service *= 2 // another packet went first
		}
		free = max(free, in) + service
		queued = append(queued, free)
		if rng.Float64() < p.loss {
			continue
		}
		outs = append(outs, out{seq, free + rng.Float64()*p.jitter.Seconds()})
	}
	slices.SortFunc(outs, func(a, b out) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	var as []arrival
	begin, last := 0, -1
	for i, o := range outs {
		if i > last {
			begin, last = i, min(i+rng.IntN(max(p.batch, 1)), len(outs)-1)
		}
		at := time.Duration(outs[last].at * 1e9)
		for _, q := range p.pauses {
			if at > q.at && at < q.at+q.length {
				at = q.at + q.length
			}
		}
		// A clock has some start; reading two packets takes some time.
		as = append(as, arrival{o.seq, time.Hour + at + time.Duration(i-begin)*500})
	}
	return as
}

// session plays the trains that an initiator would ask for, and returns the last reading.
func (p path) session(t *testing.T, rng *rand.Rand) (r reading, packets int) {
	t.Helper()
	for count := firstTrain; count > 0; count = nextLength(count, r) {
		var err error
		if r, err = readTrain(p.carry(count, rng), count, minArrivals); err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		packets += count
	}
	return r, packets
}

func mbpsOf(r reading) float64 { return r.Rate * wire * 8 / 1e6 }

// within checks a reading against the truth in Mbit/s.
func within(r reading, truth, tolerance float64) bool {
	return math.Abs(mbpsOf(r)/truth-1) <= tolerance
}

func TestReadTrainIsExactOnACleanPath(t *testing.T) {
	for _, mbps := range []float64{0.1, 1.16, 1.25, 4.75, 20, 85.19, 289.33, 1000, 10000} {
		r, packets := path{mbps: mbps}.session(t, rand.New(rand.NewPCG(1, 1)))
		if !within(r, mbps, 0.001) || r.Spread > 0.01 || r.Shaped {
			t.Errorf("%g Mbit/s reads %.4f, %+v", mbps, mbpsOf(r), r)
		}
		t.Logf("%8g Mbit/s: %8.2f after %d packets, %.1f kB", mbps, mbpsOf(r), packets, float64(packets)*wire/1e3)
		if mbps <= 5 && packets != firstTrain {
			t.Errorf("%g Mbit/s took %d packets, want %d", mbps, packets, firstTrain)
		}
	}
}

// TestReadTrainIsRobust states the accuracy that the map needs, per disturbance.
func TestReadTrainIsRobust(t *testing.T) {
	const us = time.Microsecond
	rates := []float64{0.1, 1.16, 4.75, 20, 85.19, 289.33}
	tests := []struct {
		name      string
		disturb   func(*path, *rand.Rand)
		tolerance float64
	}{
		{"receive jitter of 100 µs", func(p *path, _ *rand.Rand) { p.jitter = 100 * us }, 0.05},
		{"loss of 0.1 %", func(p *path, _ *rand.Rand) { p.loss = 0.001 }, 0.01},
		{"loss of 5 %", func(p *path, _ *rand.Rand) { p.loss = 0.05 }, 0.08},
		{"reads of up to 8", func(p *path, _ *rand.Rand) { p.batch = 8 }, 0.06},
		{"reads of up to 40", func(p *path, _ *rand.Rand) { p.batch = 40 }, 0.02},
		{"a short queue", func(p *path, _ *rand.Rand) { p.queue, p.entry = 8, 4*p.mbps }, 0.06},
		{"the reader pauses once", func(p *path, rng *rand.Rand) {
			span := time.Duration(firstTrain * wire * 8 / p.mbps * 1e3)
			p.pauses = []pause{{time.Duration(rng.Float64() * float64(span)), span / 5}}
		}, 0.12},
		{"jitter, loss and reads of up to 4", func(p *path, _ *rand.Rand) { p.jitter, p.loss, p.batch = 100*us, 0.01, 4 }, 0.12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var worst float64
			for seed := range uint64(100) {
				for _, mbps := range rates {
					rng := rand.New(rand.NewPCG(seed, 2))
					p := path{mbps: mbps}
					tt.disturb(&p, rng)
					r, _ := p.session(t, rng)
					worst = max(worst, math.Abs(mbpsOf(r)/mbps-1))
					if !within(r, mbps, tt.tolerance) {
						t.Errorf("seed %d: %g Mbit/s reads %.3f (%+v)", seed, mbps, mbpsOf(r), r)
					}
				}
			}
			t.Logf("worst error %.1f %%", 100*worst)
		})
	}
}

// A token bucket that lets a burst through must not be taken for the link. The limit
// of the method: a burst that holds the whole train cannot be seen.
func TestReadTrainSeesThroughATokenBucket(t *testing.T) {
	tests := []struct{ mbps, least, most float64 }{
		{5, 600, 1000}, // the burst arrives as one clump
		{50, 300, 450}, // the burst has a slope of its own
	}
	for _, tt := range tests {
		for seed := range uint64(50) {
			for _, bucket := range []int{16 << 10, 64 << 10, 128 << 10, 192 << 10} {
				for _, jitter := range []time.Duration{0, 100 * time.Microsecond} {
					rng := rand.New(rand.NewPCG(seed, 3))
					p := path{mbps: tt.mbps, burst: tt.least + (tt.most-tt.least)*rng.Float64(), bucket: bucket, jitter: jitter}
					r, packets := p.session(t, rng)
					if !within(r, tt.mbps, 0.06) {
						t.Errorf("seed %d: %+v reads %.2f Mbit/s after %d packets (%+v)", seed, p, mbpsOf(r), packets, r)
					}
				}
			}
		}
	}
}

// Random cross traffic takes a share of the link while the train passes. The reading
// lies between what is left and the whole.
func TestReadTrainUnderCrossTraffic(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		r, _ := path{mbps: 85.19, cross: 0.3}.session(t, rng)
		if got := mbpsOf(r); got < 85.19*0.55 || got > 85.19*1.01 {
			t.Errorf("seed %d: reads %.1f Mbit/s", seed, got)
		}
	}
}

// Whatever arrives, the answer is finite, positive, and the same for any order.
func TestReadTrainInvariants(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := rng.IntN(maxTrain) + 1
		var as []arrival
		at := time.Duration(0)
		for range n {
			if rng.IntN(3) > 0 {
				at += time.Duration(rng.ExpFloat64() * float64(time.Millisecond) * float64(rng.IntN(3)))
			}
			as = append(as, arrival{rng.IntN(maxTrain), at})
		}
		r, err := readTrain(as, maxTrain, minArrivals)
		if err != nil {
			if !errors.Is(err, errTooFew) || n > 2*minArrivals+maxTrain/4 {
				t.Fatalf("seed %d: %d arrivals: %v", seed, n, err)
			}
			continue
		}
		if !(r.Rate > 0) || math.IsInf(r.Rate, 0) || !(r.Spread >= 0) || math.IsInf(r.Spread, 0) || r.Span < 0 || r.Received > n {
			t.Fatalf("seed %d: %+v", seed, r)
		}
		if err := readingMessage(r).check(); err != nil {
			t.Fatalf("seed %d: an honest reading is refused: %v", seed, err)
		}
		rng.Shuffle(len(as), func(i, j int) { as[i], as[j] = as[j], as[i] })
		if q, err := readTrain(as, maxTrain, minArrivals); err != nil || q != r {
			t.Fatalf("seed %d: in another order %+v, %v, was %+v", seed, q, err, r)
		}
	}
}

func TestNextLengthEnds(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		trains := 0
		for count := firstTrain; count > 0; trains++ {
			r := reading{Span: time.Duration(rng.Int64N(int64(2 * minSpan))), Points: rng.IntN(maxTrain)}
			next := nextLength(count, r)
			if next != 0 && (next < min(2*count, maxTrain) || next > maxTrain) {
				t.Fatalf("seed %d: %d follows %d (%+v)", seed, next, count, r)
			}
			count = next
		}
		if trains > sessionTrains-1 {
			t.Fatalf("seed %d: %d trains", seed, trains)
		}
	}
}

func TestReadTrainTooFew(t *testing.T) {
	for n := range minArrivals {
		as := path{mbps: 1}.carry(n, rand.New(rand.NewPCG(1, 7)))
		if _, err := readTrain(append(as, as...), firstTrain, minArrivals); !errors.Is(err, errTooFew) {
			t.Errorf("%d packets, each twice: %v, want %v", n, err, errTooFew)
		}
	}
}

func FuzzReadTrain(f *testing.F) {
	f.Add([]byte{0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60})
	f.Add([]byte{0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		var as []arrival
		var at time.Duration
		for i := 0; i+1 < len(in) && len(as) < maxTrain; i += 2 {
			at += time.Duration(in[i+1]) << (in[i] % 24)
			as = append(as, arrival{int(in[i]), at})
		}
		r, err := readTrain(as, maxTrain, minArrivals)
		if err != nil {
			return
		}
		if !(r.Rate > 0) || math.IsInf(r.Rate, 0) || !(r.Spread >= 0) {
			t.Fatalf("%v reads %+v", as, r)
		}
		if n := nextLength(firstTrain, r); n < 0 || n > maxTrain {
			t.Fatalf("%+v: next train of %d", r, n)
		}
	})
}

func BenchmarkReadTrain(b *testing.B) {
	as := path{mbps: 300, jitter: 100 * time.Microsecond}.carry(maxTrain, rand.New(rand.NewPCG(1, 8)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readTrain(as, maxTrain, minArrivals); err != nil {
			b.Fatal(err)
		}
	}
}
