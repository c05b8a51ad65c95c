package beat

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What is done every second and what is done twice a second meet, whenever either began, and nothing is done twice at one instant.
func TestNext(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b := Of(string(rune('a' + rng.IntN(26))))
		now := time.Unix(rng.Int64N(4e9)-1e9, rng.Int64N(1e9))
		d := b.Next(now, time.Second)
		if d <= time.Second/8 || d > time.Second*9/8 {
			t.Fatalf("seed %d: %v to the next of every second", seed, d)
		}
		at := now.Add(d)
		early := at.Add(-time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
		if d := b.Next(early, time.Second); early.Add(d).Sub(at) != time.Second {
			t.Fatalf("seed %d: a timer that fires %v early: %v to the next", seed, at.Sub(early), d)
		}
		half := now
		for range 3 {
			half = half.Add(b.Next(half, time.Second/2))
			if half.Equal(at) {
				break
			}
		}
		if !half.Equal(at) {
			t.Fatalf("seed %d: the second's instant %v is none of the half second's", seed, at)
		}
	}
	if Of("a") == Of("b") {
		t.Error("two hosts beat as one")
	}
}
