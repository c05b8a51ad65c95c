package processors

import (
	"math"
	"testing"
)

func TestTimes(t *testing.T) {
	got, err := parseTimes("cpu  1 2 3 40 5 6 7 8 1 0\ncpu0 1 2 3 40 5 6 7 8 1 0\n")
	if want := (Times{Idle: 45, Stolen: 8, All: 72}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8 9 0", "cpu 1 2 3", "cpu  1 2 3 40 x 6 7 8 1 0"} {
		if got, err := parseTimes(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	before, after := Times{Idle: 100, Stolen: 10, All: 1000}, Times{Idle: 150, Stolen: 30, All: 1200}
	if b, s := after.Busy(before), after.StolenSince(before); math.Abs(b-0.75) > 1e-9 || math.Abs(s-0.1) > 1e-9 {
		t.Errorf("busy %v, stolen %v", b, s)
	}
	if b, s := before.Busy(before), before.StolenSince(before); b != 0 || s != 0 {
		t.Errorf("no tick: busy %v, stolen %v", b, s)
	}
}
