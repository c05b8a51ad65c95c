package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// samplePage has a series with all sizes, one that was stopped early and one without transfers.
func samplePage() *page {
	var paper output
	for i, s := range setups {
		for _, d := range duplexes {
			n := []int{20, 12, 8}[i]
			paper.results = append(paper.results, result{fmt.Sprintf("Paper/%s/%v", s.name, d), n, map[string]float64{"ns/op": float64(n * n)}})
		}
	}
	full := pointsOf(8, func(n float64) float64 { return n * n * n / 1e9 })
	for i := range full {
		full[i].transfers = float64(full[i].n * (full[i].n - 1))
	}
	return &page{
		machine: machine{date: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), goVersion: "go1.26", cores: 2,
			config: map[string]string{"cpu": "Some CPU", "goos": "linux", "goarch": "amd64"}},
		limits: limits{time.Second, 1e9}, sizes: sizes, paper: paper,
		rows: []row{
			{series{group: "allgather", name: "lr3", world: "racks"}, full, ""},
			{series{group: "alltoall", name: "aapc-sender", world: "racks"}, full[:2], "n ≥ 32: stopped after 6s"},
			{series{group: planSteps, name: "pools", world: "grid"}, pointsOf(8, func(n float64) float64 { return n }), ""},
		},
	}
}

func TestPage(t *testing.T) {
	var text bytes.Buffer
	samplePage().write(&text)
	for _, want := range []string{
		"2026-02-03 with go1.26 on linux/amd64, 2 cores, Some CPU.",
		"| **lr3** (racks) | ms | 0.000512 |",
		"| 1074 | 3.00 ± 0.00 |",
		"| **aapc-sender** (racks) | ms | 0.000512 | 0.0041 | – |",
		"- aapc-sender, n ≥ 32: stopped after 6s.",
		"| setup-3 | 8 | 0.065 | 109 | 109 | 0.000064 | 0.000064 |",
		"| growth | | | | 1.04 ± 0.01 | 2.00 ± 0.00 | 2.00 ± 0.00 |",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text.String(), "NaN") || strings.Contains(text.String(), "Inf") {
		t.Error("the page has a number that is none")
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

// Every row of a table has as many cells as its heading.
func TestTablesAreRectangular(t *testing.T) {
	var text bytes.Buffer
	samplePage().write(&text)
	cells := 0
	for i, line := range strings.Split(text.String(), "\n") {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells == 0 {
			cells = n
		}
		if n != cells || !strings.HasSuffix(line, "|") {
			t.Errorf("line %d has %d cells, its heading %d: %s", i+1, n, cells, line)
		}
	}
}

// The same measurements make the same page.
func TestPageIsDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	samplePage().write(&a)
	samplePage().write(&b)
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two pages of the same numbers differ")
	}
}
