package netmap

import (
	"testing"
	"time"
)

// A receiver that is unsure by more than the difference contradicts nobody. The sender's own doubt does not count.
func TestContradictionMindsTheSpread(t *testing.T) {
	for _, tt := range []struct {
		says, saw          float64 // Mbit/s
		sayWide, sawSpread float64
		want               bool
	}{
		{2804, 712, 30, 30, false},
		{2804, 712, 30, 0.1, true},
		{712, 2804, 0.1, 30, false},
		{712, 2804, 30, 0.1, true},
		{9000, 712, 0.1, 3.3, false}, // within three times what one train of the receiver's read
		{9500, 712, 0.1, 3.3, true},
	} {
		s, r := bandwidthOf(tt.says, t0), bandwidthOf(tt.saw, t0)
		s.Spread, r.Spread = tt.sayWide, tt.sawSpread
		if how, _ := contradicts(s, r, false, t0, time.Minute); (how != "") != tt.want {
			t.Errorf("%+v: %q", tt, how)
		}
	}
}
