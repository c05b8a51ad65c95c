package probe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A peer that holds the slot whenever it may gets a quarter of the time in the long run; one that
// holds it as honest hosts do is never refused; who asks no more is forgotten.
func TestRations(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 15))
		var rs rations
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		now := start
		held := time.Duration(0)
		const long = 4 * time.Hour
		for now.Before(start.Add(long)) {
			if d := rs.wait("hog", now); d > 0 {
				now = now.Add(min(d, time.Duration(1+rng.IntN(20))*time.Second))
			} else {
				end := now.Add(time.Duration(1+rng.IntN(12000)) * time.Millisecond)
				rs.take("hog", now, end)
				held += end.Sub(now)
				now = end
			}
			honest := fmt.Sprintf("h%d", rng.IntN(8))
			if d := rs.wait(honest, now); d > 0 {
				t.Fatalf("seed %d: %s is refused for %v after %v", seed, honest, d, now.Sub(start))
			}
			end := now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			rs.take(honest, now, end)
			now = end
		}
		share := (held - rationBurst).Seconds() / long.Seconds()
		if share > rationShare*1.05 || share < rationShare/2 {
			t.Errorf("seed %d: the hog held the slot for %v of %v", seed, held, long)
		}
		rs.take("last", now.Add(time.Hour), now.Add(time.Hour+time.Second))
		if len(rs.peers) != 1 {
			t.Errorf("seed %d: %d peers are remembered an hour later, want 1", seed, len(rs.peers))
		}
	}
}

// A clock that is set back gives nothing and takes nothing for ever.
func TestRationClockSetBack(t *testing.T) {
	var rs rations
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rs.take("a", now, now.Add(rationBurst+time.Minute))
	back := now.Add(-time.Hour)
	if rs.wait("a", back) == 0 {
		t.Error("a clock that was set back has filled the ration")
	}
	rs.take("b", back, back.Add(time.Second))
	if d := rs.wait("a", back.Add(10*time.Minute)); d > 0 {
		t.Errorf("ten minutes later it is refused for %v", d)
	}
}
