package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestJoin: a run of some cells keeps what the page had of the others, and says of when.
func TestJoin(t *testing.T) {
	cells := allCells(1)
	out := filepath.Join(t.TempDir(), "performance.md")
	if err := os.Mkdir(filepath.Join(filepath.Dir(out), "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	if raw, err := readRaw(out); raw != nil || err != nil {
		t.Fatalf("of nothing: %v, %v", raw, err)
	}
	reading := func(i int, note string) Reading {
		return Reading{Cell: cells[i], Checks: []Check{{What: "x", Value: 1}}, Note: note}
	}
	runs := []*Raw{
		{Command: "one", Date: "monday", Readings: []Reading{reading(0, "a"), reading(1, "b"), reading(2, "c")}},
		{Command: "two", Date: "tuesday", Readings: []Reading{reading(1, "B")}},
		{Command: "three", Date: "wednesday", Readings: []Reading{reading(1, "BB"), reading(3, "d")}},
	}
	for _, raw := range runs {
		old, err := readRaw(out)
		if err != nil {
			t.Fatal(err)
		}
		if old != nil {
			raw.join(old)
		}
		if err := report(raw, out); err != nil {
			t.Fatal(err)
		}
	}
	last, err := readRaw(out)
	if err != nil || len(last.Readings) != 4 {
		t.Fatalf("%d readings, %v", len(last.Readings), err)
	}
	if len(last.Earlier) != 1 || last.Earlier[0] != (Earlier{Command: "one", Date: "monday", Cells: 2}) {
		t.Errorf("earlier runs: %+v", last.Earlier)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BB", "2 cells are of an earlier run: `one`, monday", "Not measured: `" + cells[4].String()} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := os.WriteFile(numbersOf(out), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRaw(out); err == nil || !strings.Contains(err.Error(), "performance.json") {
		t.Errorf("of a broken file: %v", err)
	}
}

// Beside each ratio is the time that it is a multiple of; what is no such ratio is beside the least of them all.
func TestLeast(t *testing.T) {
	r := Reading{Cell: Cell{Row: Drawn, Collective: plan.Alltoall, Network: drawnName(1), Size: 64 * kib}, Bound: 4, Relayed: 2, Makespans: []float64{3},
		Checks: []Check{{What: "makespan / direct bound", Value: 0.75}, {What: "makespan / relayed bound", Value: 1.5}, {What: "makespan / (bound + 2 round trips)", Value: 1.2}}}
	at := slices.Index(head, "least")
	for i, want := range []string{"4 s", "2 s", "2 s"} {
		if got := lines([]Reading{r})[i].columns[at]; got != want {
			t.Errorf("%s: least %s, want %s", r.Checks[i].What, got, want)
		}
	}
	r.Failed = "it failed"
	if got := lines([]Reading{r})[0].columns[at]; got != "2 s" {
		t.Errorf("of a failure: least %s, want 2 s", got)
	}
}

// TestAbout: what is to be said of a row's numbers stands under its title, and only there.
func TestAbout(t *testing.T) {
	page := markdown(&Raw{Readings: []Reading{{Cell: Cell{Row: Shared}}, {Cell: Cell{Row: Lanes, Network: "20Mbps-0%-1lanes"}}}})
	_, lanes, found := strings.Cut(page, titles[Lanes][4:]+"\n\n")
	if !found || !strings.HasPrefix(lanes, about[Lanes]+"\n\n| operation |") {
		t.Errorf("the page does not say what a share is:\n%s", page)
	}
	if n := strings.Count(page, shares); n != 1 {
		t.Errorf("the page says so %d times", n)
	}
	var text strings.Builder
	if err := writeText(&text, &Raw{Readings: []Reading{{Cell: Cell{Row: Lanes}}}}); err != nil || !strings.Contains(text.String(), about[Lanes]) {
		t.Errorf("on the screen (%v): %s", err, text.String())
	}
	for row := range about {
		if titles[row] == "" {
			t.Errorf("no row %q", row)
		}
	}
}

// TestDoc: the files that the package's doc names are there.
func TestDoc(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`[a-z_]+\.go\b`).FindAllString(string(doc), -1)
	if len(names) == 0 {
		t.Error("the doc names no file")
	}
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}
