package exchange

import (
	"math"
	"testing"
	"time"
)

// TestOpenings: what is sent at one instant goes out at the rate, each site for itself; nobody waits for longer than a round trip, and
// who comes later than the last has left does not wait.
func TestOpenings(t *testing.T) {
	const rate, slice = 1e6, 2500 // 2.5 ms
	trip := 20 * time.Millisecond
	var o openings
	now := time.Unix(1e9, 0)
	for i := range 20 {
		want := min(time.Duration(i)*2500*time.Microsecond, trip)
		if got := o.slot("a", slice, rate, trip, now); got != want {
			t.Errorf("slice %d waits %v, want %v", i, got, want)
		}
	}
	if got := o.slot("b", slice, rate, trip, now); got != 0 {
		t.Errorf("the first slice to another site waits %v", got)
	}
	if got := o.slot("a", slice, rate, trip, now.Add(trip+3*time.Millisecond)); got != 0 {
		t.Errorf("a slice behind all others waits %v", got)
	}
	for _, r := range []float64{0, -1, math.NaN()} {
		if got := o.slot("a", slice, r, trip, now); got != 0 {
			t.Errorf("at %v bytes a second a slice waits %v", r, got)
		}
	}
	for i := range 3 * maxOpenings {
		o.slot(string(rune('A'+i)), slice, rate, trip, now)
	}
	if len(o.next) > maxOpenings {
		t.Errorf("%d sites are remembered", len(o.next))
	}
}
