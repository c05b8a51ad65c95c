package lab

import (
	"math"
	"testing"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// A bucket lets one full packet through at once and, at rates where a probe could be fooled, not two.
func TestBurst(t *testing.T) {
	for r := minRate; r <= maxRate; r *= 1.07 {
		wire := float64(r) * frame / gridnet.MTU
		b := burst(wire)
		// As the kernel counts it back: psched_ns_t2l.
		kernel := uint64(ticks(float64(b)/wire)) * 64 * uint64(wire) / 1e9
		if kernel < frame {
			t.Fatalf("%s: the bucket holds %d bytes, and a full packet has %d: none would pass", rate(r), kernel, frame)
		}
		if r < 40e6/8 && b >= 2*frame {
			t.Fatalf("%s: the bucket holds %d bytes: two packets pass at once", rate(r), b)
		}
		if over := float64(b-frame) / wire; over > 2*burstTime && b > frame+64 {
			t.Fatalf("%s: %d bytes pass at once, %.0f µs of the rate", rate(r), b, 1e6*over)
		}
		if b == math.MaxUint32 {
			t.Fatalf("%s: the bucket overflows", rate(r))
		}
	}
}

func TestRatesTheKernelCannotHold(t *testing.T) {
	for _, c := range []struct {
		r  gridnet.Rate
		ok bool
	}{{0, true}, {minRate, true}, {maxRate, true}, {minRate - 1, false}, {2 * maxRate, false}, {-1, false}, {gridnet.Rate(math.NaN()), false}} {
		if err := checkRate("port", c.r); (err == nil) != c.ok {
			t.Errorf("rate of %v bytes/s: error %v, want one: %v", float64(c.r), err, !c.ok)
		}
	}
}
