package main

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/internal/accuracy/random"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// kept are the rows whose bounds TestQuick asserts; the others are printed (go test -v).
var kept = []Row{Bytes, FallIdle, Wobble}

// smallCells are those of quickCells that take few seconds and no luck, and a drawn grid that is small.
func smallCells() []Cell {
	cells := slices.DeleteFunc(quickCells(), func(c Cell) bool {
		return c.World.Loss > 0 || !slices.Contains([]Row{Flow, FallIdle}, c.Row)
	})
	return append(cells, Cell{Row: Random, Seed: smallSeed, Idle: looks[len(looks)-1]})
}

// smallSeed draws two sites of few hosts with slow links that lose nothing.
const smallSeed = 9

// TestQuick measures a few cells, and with GRIDAGENT_ACCURACY_TESTS=all what scripts/bench probes --quick does.
func TestQuick(t *testing.T) {
	if testing.Short() || gridtest.Race {
		t.Skip("ten seconds of CPU, and twelve times as much with the race detector")
	}
	cells := smallCells()
	if os.Getenv("GRIDAGENT_ACCURACY_TESTS") == "all" {
		cells = append(quickCells(), cells[len(cells)-1])
	}
	var readings []Reading
	for _, c := range cells {
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
		switch r.Cell.Row {
		case Flow:
			quickFlow(t, r)
		case Random:
			quickRandom(t, r)
		}
	}
}

// quickFlow judges a world in which nothing is lost.
func quickFlow(t *testing.T, r Reading) {
	t.Helper()
	w := r.Cell.World
	most := 0.05 // with neither loss nor strangers one flow gets the link's rate
	if w.Cross > 0 {
		most = 0.15
	}
	if far := worst(errorsOf(r.Got["late"], r.one("truth"))); w.Loss == 0 && !(math.Abs(far) <= most) {
		t.Errorf("%v: bandwidth is off by up to %s", r.Cell, signed(far))
	}
	// On a slow link a ping's own packets take about the millisecond that is allowed.
	if l := judgeRoundTrip([]Reading{r}); w.Mbps >= 4 && !l.OK {
		t.Errorf("%v: round trip is off by %s", r.Cell, l.Measured)
	}
}

// quickRandom judges the links of a drawn grid of which the truth is exact, and the time that a change takes.
func quickRandom(t *testing.T, r Reading) {
	t.Helper()
	before := random.Draw(r.Cell.Seed, random.Wide)
	for i := range before.File.WAN {
		if _, exact := before.Flow(i); !exact {
			continue
		}
		for _, x := range randomVerdict(&r, before, i, r.one(under(before, i, "truth")), looks[2]).wrong {
			t.Errorf("%v: %s, %s: after %v: %s", r.Cell, before.Name(i), before.Describe(i), looks[2], x)
		}
	}
	if s := r.one("seen"); !(s <= 30) {
		t.Errorf("%v: %v of %s: all maps tell it after %s", r.Cell, before.Change, before.Name(before.Change.Links[0]), seconds(s))
	}
}
