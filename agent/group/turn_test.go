package group

import (
	"math"
	"testing"
	"time"
)

// TestTurns: the first few messages to a far site wait for nothing, those behind them go at the rate of the way, shared by the mates
// that speak, and no wait is longer than maxTurn.
func TestTurns(t *testing.T) {
	w := Way{Site: "far", Rate: 1 << 20, Mates: 8}
	now := time.Unix(1e9, 0)
	for _, mates := range []int{1, 5, 8, 100} {
		var turns turns
		each := 1 << 10
		step := time.Duration(float64(each) / w.Rate * 1e9)
		step *= time.Duration(min(mates, w.Mates))
		ahead := time.Duration(turnBytes / w.Rate * 1e9)
		for i := range 2000 {
			want := min(max(time.Duration(i)*step-ahead, 0), maxTurn)
			got := turns.take(w, each, mates, now)
			if d := got - want; d < -time.Microsecond || d > time.Microsecond {
				t.Fatalf("%d mates: message %d waits %v, want %v", mates, i, got, want)
			}
		}
		if got := turns.take(Way{Site: "another", Rate: w.Rate}, each, mates, now); got != 0 {
			t.Errorf("the first message to another site waits %v", got)
		}
		if got := turns.take(w, each, mates, now.Add(2*maxTurn+ahead)); got != 0 {
			t.Errorf("%d mates: the first message after a pause waits %v", mates, got)
		}
	}
	var turns turns
	for _, rate := range []float64{0, -1, math.NaN(), math.SmallestNonzeroFloat64, math.Inf(1)} {
		for range 100 {
			if got := turns.take(Way{Site: "far", Rate: rate}, math.MaxInt32, 8, now); got < 0 || got > maxTurn {
				t.Errorf("at %v bytes a second a message waits %v", rate, got)
			}
		}
	}
	for i := range 3 * maxTurns {
		turns.take(Way{Site: string(rune('A' + i)), Rate: 1}, 1, 1, now)
	}
	if len(turns.free) > maxTurns {
		t.Errorf("%d sites are remembered", len(turns.free))
	}
}
