package netmap

import (
	"testing"
	"time"
)

func TestUncertainty(t *testing.T) {
	now := time.Unix(1e6, 0)
	e := Estimate{Known: FieldBandwidth, Bandwidth: 1e6, Spread: 0.05, Source: SourceProbed, Measured: now}
	at := func(d time.Duration) float64 { return e.Uncertainty(now.Add(d)) }
	if at(0) != 0.05 || at(-time.Hour) != 0.05 {
		t.Errorf("new: %g, from the future: %g", at(0), at(-time.Hour))
	}
	if !(at(time.Hour) > 0.2 && at(time.Hour) < 0.21 && at(4*time.Hour) > 1.9*at(time.Hour)) {
		t.Errorf("after an hour %g, after four %g", at(time.Hour), at(4*time.Hour))
	}
	for d, last := time.Duration(0), 0.0; d < 100*time.Hour; d += 7 * time.Minute {
		if u := at(d); u < last || u > 1 {
			t.Fatalf("after %v: %g after %g", d, u, last)
		} else {
			last = u
		}
	}
	for name, e := range map[string]Estimate{
		"unknown":   {},
		"predicted": {Known: FieldBandwidth, Bandwidth: 1, Source: SourcePredicted, Measured: now},
	} {
		if u := e.Uncertainty(now); u != 1 {
			t.Errorf("%s: %g", name, u)
		}
	}
	e.Measured = time.Time{}
	if at(0) != 0.05 {
		t.Errorf("of a file: %g", at(0))
	}
}
