package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A time in no table, and no line of a picture, lies under its own bound, and each has one: of the switches' models, and
// where contenders of any experiment have bounds of their own.
func TestNoTimeUnderItsBound(t *testing.T) {
	model := new(Raw)
	if err := exchangeFig3.more(t.Context(), nil, model); err != nil {
		t.Fatal(err)
	}
	holdBounds(t, &exchangeFig3, model)
	for i := range experiments {
		raw := invented(&experiments[i], 0)
		for k := range raw.Records {
			raw.Records[k].Bound = 0.9 * raw.Records[k].Mean
		}
		holdBounds(t, &experiments[i], raw)
	}
}

// One bound is one row, as long as contenders do not differ in it.
func TestOneBound(t *testing.T) {
	records := []Record{
		{Algorithm: "a", SizeBytes: 1, Bound: 2}, {Algorithm: "b", SizeBytes: 1, Bound: 2}, {Algorithm: "b", SizeBytes: 4, Bound: 8},
		{Algorithm: "c", SizeBytes: 1},
	}
	if got := boundsOf(records, []string{"a", "b", "c"}); len(got) != 1 || got[0].title != "bound" || len(got[0].at) != 2 {
		t.Errorf("%+v", got)
	}
	records = append(records, Record{Algorithm: "c", SizeBytes: 1, Bound: 3}, Record{Algorithm: "c", SizeBytes: 4, Bound: 8})
	got := boundsOf(records, []string{"a", "b", "c"})
	if len(got) != 2 || got[0].title != "bound of a and b" || got[1].title != "bound of c" || got[1].at[1].Bound != 3 {
		t.Errorf("%+v", got)
	}
}

// Real processes on links of different rates are apart, as are agents that were told the tree, and those whose blocks
// differ in size are left out.
func TestLabRecordsApart(t *testing.T) {
	const file = `[
{"tool":"mpich","collective":"allgather","algorithm":"ring","congestion":"bbr","grid":"allgather-f","link_rate":"5Mbps","size_bytes":1024,"mean_s":6,"bound_s":5,"verified":true},
{"tool":"mpich","collective":"allgather","algorithm":"ring","congestion":"bbr","grid":"allgather-f","link_rate":"10Mbps","size_bytes":1024,"mean_s":3,"bound_s":2.5,"verified":true},
{"tool":"gridagent","collective":"allgather","algorithm":"auto","congestion":"auto","grid":"allgather-f","link_rate":"10Mbps","size_bytes":1024,"mean_s":2.9,"bound_s":2.5,"verified":true},
{"tool":"gridagent","collective":"allgather","algorithm":"auto","congestion":"auto","grid":"allgather-f","link_rate":"10Mbps","declared":true,"size_bytes":1024,"mean_s":2.6,"bound_s":2.5,"verified":true},
{"tool":"gridagent","collective":"allgather","algorithm":"auto","congestion":"auto","grid":"allgather-f","link_rate":"10Mbps","shape":"first","size_bytes":1024,"mean_s":0.1,"bound_s":0.09,"verified":true}
]`
	path := filepath.Join(t.TempDir(), "peers.json")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	records, err := readPeers(path)
	if err != nil {
		t.Fatal(err)
	}
	p := ringsFig10.page(&Raw{Records: records})
	holdBounds(t, &ringsFig10, &Raw{Records: records})
	var got []string
	for _, d := range p.panels {
		for _, s := range d.series {
			got = append(got, fmt.Sprint(d.title[strings.LastIndex(d.title, ",")+2:], ": ", s.name, s.xy))
		}
	}
	want := []string{
		"links of 5Mbps: mpich, bbr[{1024 6}]", "links of 5Mbps: bound[{1024 5}]",
		"links of 10Mbps: mpich, bbr[{1024 3}]", "links of 10Mbps: gridagent, auto[{1024 2.9}]",
		"links of 10Mbps: gridagent, auto, tree declared[{1024 2.6}]", "links of 10Mbps: bound[{1024 2.5}]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	tables := slices.DeleteFunc(p.tables, func(t table) bool { return !strings.HasPrefix(t.title, "lab") })
	if len(tables) != 2 || len(tables[0].rows) != 2 || len(tables[1].rows) != 5 {
		t.Errorf("tables %+v", tables)
	}
}

// holdBounds checks all tables and diagrams of times of a page.
func holdBounds(t *testing.T, e *experiment, raw *Raw) {
	t.Helper()
	p := e.page(raw)
	for _, table := range p.tables {
		if table.head[0] != "block" || strings.HasPrefix(table.title, "packets lost") || len(table.rows) == 0 || !strings.HasPrefix(table.rows[0][0], "bound") {
			continue // no table of times by size
		}
		for _, row := range table.rows {
			row[0] = strings.TrimSuffix(row[0], oldMark)
			if strings.HasPrefix(row[0], "bound") || strings.HasPrefix(row[0], "best of ours") {
				continue
			}
			own := slices.IndexFunc(table.rows, func(r []string) bool { return isBoundOf(r[0], row[0]) })
			if own < 0 {
				t.Errorf("%s, %s: %s has no bound", e.id, table.title, row[0])
				continue
			}
			for i, cell := range row[1:] {
				if cell == "–" {
					continue
				}
				time, bound := secondsIn(t, cell), secondsIn(t, table.rows[own][i+1])
				if time < bound*0.995 { // three digits
					t.Errorf("%s, %s: %s of %s is under its bound of %s", e.id, table.title, cell, row[0], table.rows[own][i+1])
				}
			}
		}
	}
	for _, d := range p.panels {
		sign := 1.
		switch d.y.label {
		case throughput.axis.label, bandwidth.axis.label:
			sign = -1 // what is best is largest
		case seconds.axis.label:
		default:
			continue
		}
		for _, s := range d.series {
			own := slices.IndexFunc(d.series, func(b series) bool { return b.bound && isBoundOf(b.name, s.name) })
			if s.bound || own < 0 {
				continue
			}
			for _, q := range s.xy {
				for _, b := range d.series[own].xy {
					if b.X == q.X && sign*(q.Y-b.Y) < -1e-9*b.Y {
						t.Errorf("%s, %s: %v of %s is beyond its bound of %v", e.id, d.title, q, s.name, b)
					}
				}
			}
		}
	}
}

// isBoundOf reports whether title is that of the bounds of name.
func isBoundOf(title, name string) bool {
	names, ok := strings.CutPrefix(title, "bound of ")
	return title == "bound" || ok && slices.Contains(strings.Split(strings.ReplaceAll(names, " and ", ", "), ", "), name)
}

// secondsIn reads the first number of a cell.
func secondsIn(t *testing.T, cell string) float64 {
	t.Helper()
	var v float64
	var unit string
	if _, err := fmt.Sscan(cell, &v, &unit); err != nil {
		t.Fatalf("%q: %v", cell, err)
	}
	d, err := time.ParseDuration(fmt.Sprint(v, unit))
	if err != nil {
		t.Fatalf("%q: %v", cell, err)
	}
	return d.Seconds()
}
