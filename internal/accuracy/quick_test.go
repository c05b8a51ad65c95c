package main

import (
	"os"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// kept are the rows whose bounds TestQuick asserts; the others are printed (go test -v).
var kept = []Row{Bytes, Wobble}

// TestQuick measures what scripts/bench probes --quick does.
func TestQuick(t *testing.T) {
	if testing.Short() || gridtest.Race {
		t.Skip("three quarters of a minute of CPU, and twelve times as much with the race detector")
	}
	var readings []Reading
	for _, c := range quickCells() {
		readings = append(readings, measure(t, c))
	}
	lines := judge(readings)
	if testing.Verbose() {
		if err := writeText(os.Stderr, lines, true); err != nil {
			t.Error(err)
		}
	}
	for _, l := range lines {
		if !l.OK && slices.Contains(kept, l.Row) {
			t.Errorf("%s: %s, bound %s", l.What, l.Measured, l.Bound)
		}
	}
	for _, r := range readings {
		w := r.Cell.World
		if r.Cell.Row != Flow {
			continue
		}
		// With neither loss nor strangers one flow gets the link's rate.
		if far := worst(errorsOf(r.Got["late"], r.one("truth"))); w.Loss == 0 && w.Cross == 0 && !(far <= 0.05 && far >= -0.05) {
			t.Errorf("%v: bandwidth is off by up to %s", r.Cell, signed(far))
		}
		// On a slow link a ping's own packets take about the millisecond that is allowed.
		if l := judgeRoundTrip([]Reading{r}); w.Mbps >= 4 && !l.OK {
			t.Errorf("%v: round trip is off by %s", r.Cell, l.Measured)
		}
	}
}
