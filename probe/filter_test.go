package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestRTTFilter(t *testing.T) {
	const ms = time.Millisecond
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var f rttFilter
		if _, ok := f.value(0); ok {
			t.Fatal("a value before any sample")
		}
		if v, ok := f.value(100 * ms); !ok || v != 100*ms {
			t.Fatalf("connection's least alone: %v, %v", v, ok)
		}
		// Queues come and go; one round in three finds none.
		for i := range 30 {
			d := 100*ms + time.Duration(rng.ExpFloat64()*float64(200*ms))
			if i%3 == 0 {
				d = 100*ms + time.Duration(rng.IntN(1000))*time.Microsecond
			}
			f.active(d)
		}
		if v, _ := f.value(0); v < 100*ms || v > 101*ms {
			t.Fatalf("seed %d: %v, want 100ms", seed, v)
		}
		// Traffic cannot raise it, and says so.
		if f.passive(400 * ms) {
			t.Fatalf("seed %d: 400ms fits", seed)
		}
		if v, _ := f.value(0); v > 101*ms {
			t.Fatalf("seed %d: %v after load", seed, v)
		}
		if !f.passive(120 * ms) {
			t.Fatalf("seed %d: 120ms, with a delayed acknowledgement, does not fit", seed)
		}
		if !f.passive(99*ms) || f.window[len(f.window)-1] != 99*ms {
			t.Fatalf("seed %d: a shorter path is not taken from traffic", seed)
		}
		// A longer path is believed after one window, the connection's least notwithstanding.
		for i := range rttWindow {
			if v, _ := f.value(99 * ms); v > 101*ms {
				t.Fatalf("seed %d: %v after %d rounds on the longer path", seed, v, i)
			}
			f.active(150 * ms)
		}
		if v, _ := f.value(99 * ms); v != 150*ms {
			t.Fatalf("seed %d: %v on the longer path, want 150ms", seed, v)
		}
	}
}
