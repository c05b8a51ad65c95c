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
			f.active(d, 0, rttStep)
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
		// A longer path is believed after a few rounds that agree, the connection's least notwithstanding.
		for i := range rttStep {
			if v, _ := f.value(99 * ms); v > 101*ms {
				t.Fatalf("seed %d: %v after %d rounds on the longer path", seed, v, i)
			}
			f.active(150*ms+time.Duration(i)*ms/2, 0, rttStep)
		}
		if v, _ := f.value(99 * ms); v != 150*ms {
			t.Fatalf("seed %d: %v on the longer path, want 150ms", seed, v)
		}
	}
}

// TestRTTFilterSteps checks that a path that has become longer is believed after [rttStep] rounds, that queues which never stand
// still are not, and that a path that is short again is believed at once.
func TestRTTFilterSteps(t *testing.T) {
	const ms = time.Millisecond
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		path := time.Duration(1+rng.IntN(100)) * ms
		noise := func() time.Duration { return time.Duration(rng.Int64N(int64(300 * time.Microsecond))) }
		var f rttFilter
		for range rng.IntN(5) + 1 {
			f.active(path+noise(), 0, rttStep)
		}
		// A saw tooth of a queue, of which no two rounds in a row meet the same length.
		for i := range 5 {
			f.active(path+time.Duration(i%2+1)*(path/10+3*ms), 0, rttStep)
			if v, _ := f.value(path); v > path+ms {
				t.Fatalf("seed %d: %v of a path of %v after %d rounds with a queue", seed, v, path, i)
			}
		}
		f.active(path+noise(), 0, rttStep)
		longer := path + path/10 + 2*ms
		for i := range rttStep {
			if v, _ := f.value(path); v > path+ms {
				t.Fatalf("seed %d: %v after %d rounds of %v", seed, v, i, longer)
			}
			f.active(longer+noise(), 0, rttStep)
		}
		if v, _ := f.value(path); v < longer || v > longer+ms {
			t.Fatalf("seed %d: %v of a path of %v, which was %v", seed, v, longer, path)
		}
		f.passive(path + 100*time.Microsecond)
		if v, _ := f.value(path); v > path+ms {
			t.Fatalf("seed %d: %v of a path of %v that was longer for a while", seed, v, path)
		}
	}
}

// TestRTTFilterGrain checks that a packet more in some rounds does not make a path longer.
func TestRTTFilterGrain(t *testing.T) {
	const path, packet = 18 * time.Millisecond, 3 * time.Millisecond
	var f rttFilter
	f.active(path, packet, rttStep)
	for range rttWindow - 1 {
		f.active(path+packet, packet, rttStep)
	}
	if v, _ := f.value(path); v != path {
		t.Errorf("%v, want %v", v, path)
	}
}
