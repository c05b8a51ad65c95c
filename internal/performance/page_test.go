package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
