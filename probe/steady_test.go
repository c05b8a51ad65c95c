package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// An aimd is a flow of quic-go's congestion control in rounds of one round trip: it doubles
// until the queue fills or a packet is lost, then gains a packet a round and falls to 0.7 at a loss.
type aimd struct {
	rtt   time.Duration
	rate  float64 // of the link, packets a second
	queue float64 // packets that fit before it
	loss  float64
	burst float64 // packets that pass at fast before the link's rate holds
	fast  float64
}

// samples runs the flow for d and reports once a round trip.
func (f aimd) samples(d time.Duration, rng *rand.Rand) []sample {
	w, slow := 32.0, true
	ss := []sample{{}}
	var bytes, lost, waiting float64
	for at := time.Duration(0); at < d; {
		rate := f.rate
		if f.burst > 0 {
			rate = f.fast
		}
		bdp := rate * f.rtt.Seconds()
		waiting = math.Min(math.Max(w-bdp, 0), f.queue)
		round := f.rtt + time.Duration(waiting/rate*1e9)
		sent := math.Min(w, rate*round.Seconds())
		if f.burst > 0 {
			f.burst -= sent
		}
		at += round
		hit := w > bdp+f.queue
		for range int(sent) {
			if rng.Float64() < f.loss {
				hit = true
				lost++
			}
		}
		bytes += sent * userPayload
		switch {
		case hit:
			w, slow, lost = math.Max(w*0.7, 2), false, lost+1
		case slow && waiting > bdp/8:
			slow = false
		case slow:
			w *= 2
		default:
			w++
		}
		ss = append(ss, sample{at, int64(bytes), int64(lost), round, int64(w * trainPayload)})
	}
	return ss
}

// readUntil reads samples as they come until it is enough.
func readUntil(ss []sample, p bulkPath) (r steady, n int) {
	for n = 2; n <= len(ss); n += 1 + n/50 { // every report at first: all of them take n²
		if r = readSteady(ss[:n], p); r.Enough {
			return r, n
		}
	}
	return r, min(n, len(ss))
}

const mbps = 1e6 / 8 / userPayload // packets a second

// A flow that fills its link is read to a part of a per cent within 30 round trips, from
// 0.1 Mbit/s to 10 Gbit/s.
func TestSteadyOfFullLinks(t *testing.T) {
	if gridtest.Race {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, rate := range []float64{0.1, 1, 10, 100, 1000, 10000} {
		for _, rtt := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
			f := aimd{rtt: rtt, rate: rate * mbps, queue: max(64, rate*mbps*rtt.Seconds())}
			ss := f.samples(25*time.Second, rand.New(rand.NewPCG(1, 1)))
			r, n := readUntil(ss, bulkPath{rtt: rtt, lanes: 1, packet: userPayload, want: 0.05})
			off := r.Rate/(f.rate*userPayload) - 1
			t.Logf("%g Mbit/s, %v: %+.2f %%, spread %.3f after %v, %d round trips", rate, rtt, 100*off, r.Spread, ss[n-1].at, ss[n-1].at/rtt)
			if !r.Enough || math.Abs(off) > 0.01 {
				t.Errorf("%g Mbit/s, %v: %+v", rate, rtt, r)
			}
		}
	}
}

// Where losses decide, the error that is stated is the one that is made, about.
func TestSteadyOfLossyPaths(t *testing.T) {
	if gridtest.Race {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	const rtt = 20 * time.Millisecond
	for _, tt := range []struct{ loss, want float64 }{{1e-3, 0.1}, {1e-2, 0.05}, {1e-2, 0.1}} {
		f := aimd{rtt: rtt, rate: 1000 * mbps, queue: 1e3, loss: tt.loss}
		long := f.samples(2000*time.Second, rand.New(rand.NewPCG(1, 1)))
		truth := float64(long[len(long)-1].bytes) / long[len(long)-1].at.Seconds()
		var z, bytes, off float64
		const runs = 25
		for seed := range uint64(runs) {
			ss := f.samples(40*time.Second, rand.New(rand.NewPCG(seed, 2)))
			r, n := readUntil(ss, bulkPath{rtt: rtt, lanes: 1, packet: userPayload, want: tt.want})
			e := r.Rate/truth - 1
			off += math.Abs(e) / runs
			z += e * e / r.Spread / r.Spread / runs
			bytes += float64(ss[n-1].bytes) / runs
		}
		z = math.Sqrt(z)
		t.Logf("loss %g, want %.2f: %.1f Mbit/s, mean error %.1f %%, %.2f of what is stated, %.1f MB", tt.loss, tt.want, truth*8/1e6, 100*off, z, bytes/1e6)
		if z > 1.5 {
			t.Errorf("loss %g: errors are %.2f times what is stated", tt.loss, z)
		}
	}
}

// A token bucket is read after it has run empty, however long that takes.
func TestSteadyOfBuckets(t *testing.T) {
	for _, burst := range []float64{100, 1000, 5000} {
		for _, fast := range []float64{2, 10} {
			f := aimd{rtt: 20 * time.Millisecond, rate: 10 * mbps, queue: 64, burst: burst, fast: fast * 10 * mbps}
			ss := f.samples(time.Minute, rand.New(rand.NewPCG(1, 1)))
			// Whether it is read before is luck; that the whole is read right is not.
			r := readSteady(ss, bulkPath{rtt: f.rtt, lanes: 1, packet: userPayload, want: 0.05})
			if off := r.Rate/(f.rate*userPayload) - 1; math.Abs(off) > 0.02 || !r.Enough {
				t.Errorf("%g packets at %g times the rate: %+.1f %%, %+v", burst, fast, 100*off, r)
			}
		}
	}
}

// A sender that is slower than its path is told from one whose window still grows.
func TestSteadyOfSlowSenders(t *testing.T) {
	read := func(window func(i int) int64) steady {
		var ss []sample
		for i := range 100 {
			at := time.Duration(i) * 20 * time.Millisecond
			ss = append(ss, sample{at, int64(i) * 50000, 0, 20 * time.Millisecond, window(i)})
		}
		return readSteady(ss, bulkPath{rtt: 20 * time.Millisecond, lanes: 1, packet: userPayload, want: 0.05})
	}
	p := bulkPath{rtt: 20 * time.Millisecond, lanes: 1, packet: userPayload}
	if r := read(func(int) int64 { return 200000 }); !r.Enough || !r.limited(p) {
		t.Errorf("slow sender: %+v", r)
	}
	if r := read(func(i int) int64 { return 50000 + int64(i)*trainPayload }); r.Enough || r.limited(p) {
		t.Errorf("growing window: %+v", r)
	}
}

// FuzzSteady: whatever is reported, a reading is finite, lies between the least and the largest
// rate that was seen, and states an error.
func FuzzSteady(f *testing.F) {
	f.Add([]byte{20, 50, 0, 20, 50, 0, 20, 50, 1, 20, 50, 0, 20, 50, 0, 20, 50, 0, 20, 50, 0, 20, 50, 0}, uint8(1), uint16(1))
	f.Add(make([]byte, 300), uint8(64), uint16(0))
	f.Fuzz(func(t *testing.T, in []byte, lanes uint8, rtt uint16) {
		ss := []sample{{}}
		low, high := math.Inf(1), 0.0
		for ; len(in) >= 3; in = in[3:] {
			s := ss[len(ss)-1]
			dt := time.Duration(in[0]) * time.Millisecond
			s.at += dt
			s.bytes += int64(in[1]) * 1000
			if dt == 0 {
				s.bytes = ss[len(ss)-1].bytes // else the rate is infinite
			} else {
				rate := float64(in[1]) * 1000 / dt.Seconds()
				low, high = min(low, rate), max(high, rate)
			}
			s.lost += int64(in[2] & 3)
			s.rtt = time.Duration(in[2]) * time.Millisecond
			s.window = int64(in[2]) * 1000
			ss = append(ss, s)
		}
		p := bulkPath{rtt: time.Duration(rtt) * time.Microsecond, lanes: int(lanes), packet: userPayload, want: 0.05}
		r := readSteady(ss, p)
		if r.Rate == 0 {
			if r.Enough {
				t.Fatalf("%+v", r)
			}
			return
		}
		if !(r.Rate >= low*0.999 && r.Rate <= high*1.001) || !(r.Spread >= 0 && r.Spread <= maxSpread) || r.Cuts < 0 || r.Queue < 0 {
			t.Fatalf("rates of %g to %g: %+v", low, high, r)
		}
		if twice := readSteady(ss, p); twice != r {
			t.Fatalf("%+v, then %+v", r, twice)
		}
	})
}

// While a flow's slow start keeps strangers out of the queue of a slow link it gets nearly all of it, and evenly. A reading waits for what it gets
// later; one of a flow that is alone there does not.
func TestSteadyWaitsForStrangers(t *testing.T) {
	const line, rtt = 1.1e6 / 8, 20 * time.Millisecond
	for _, tt := range []struct {
		first, later float64 // part of the link
		least, most  time.Duration
	}{
		{0.93, 0.70, sharedTime, 6 * time.Second},
		{0.99, 0.99, 0, 2 * time.Second},
	} {
		rng := rand.New(rand.NewPCG(2, 1))
		ss := []sample{{}}
		bytes := 0.0
		for at := rtt; at < 10*time.Second; at += rtt {
			part := tt.later
			if at < 1500*time.Millisecond {
				part = tt.first
			}
			bytes += part * line * rtt.Seconds() * max(1+0.12*rng.NormFloat64(), 0)
			window := int64(line * 0.4) // 0.4 s of queue, and slow start has ended after half a second
			if at < time.Second/2 {
				window = int64(float64(window) * at.Seconds() / 0.5)
			}
			ss = append(ss, sample{at: at, bytes: int64(bytes), rtt: 400 * time.Millisecond, window: window})
		}
		r, n := readUntil(ss, bulkPath{rtt: rtt, lanes: 1, packet: userPayload, want: 0.05, line: line})
		part := r.Rate / line
		if took := ss[n-1].at; !r.Enough || took < tt.least || took > tt.most || part > tt.later+0.1 {
			t.Errorf("%.2f of the link at first and %.2f later: %.2f after %v, enough %v", tt.first, tt.later, part, took, r.Enough)
		}
	}
}
