package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/gantt"
)

func TestReadPeers(t *testing.T) {
	dir := t.TempDir()
	if got, err := readPeers(filepath.Join(dir, "none.json")); err != nil || got != nil {
		t.Errorf("a file that is not there: %v, %v", got, err)
	}
	const (
		one    = `{"source":"lab","tool":"mpich","version":"4.0","collective":"allgather","algorithm":"ring","congestion":"cubic","size_bytes":65536,"iterations":3,"mean_s":2,"min_s":1,"max_s":3,"seconds":[1,2,3],"bound_s":1.5,"verified":true,"grid":"paper-3site","hosts":20,"cpu_busy":0.5}`
		two    = `{"tool":"openmpi","collective":"alltoall","algorithm":"pairwise","grid":"allgather-a","link_rate":"10Mbps","size_bytes":10,"mean_s":4,"verified":true}`
		wrong  = `{"tool":"openmpi","collective":"alltoall","algorithm":"bruck","grid":"allgather-a","size_bytes":10,"mean_s":4,"verified":false}`
		failed = `{"tool":"openmpi","collective":"alltoall","algorithm":"bruck","grid":"allgather-a","size_bytes":10,"error":"it hung"}`
		link   = `{"tool":"iperf3","grid":"allgather-a","goodput_mbps":4}`
	)
	want := []Record{
		{Source: Lab, Tool: "mpich", Version: "4.0", Collective: "allgather", Algorithm: "ring", Congestion: "cubic", Grid: "paper-3site", Hosts: 20, SizeBytes: 65536, Iterations: 3, Mean: 2, Min: 1, Max: 3, Bound: 1.5, Verified: true},
		{Source: Lab, Tool: "openmpi", Collective: "alltoall", Algorithm: "pairwise", Grid: "allgather-a", LinkRate: "10Mbps", SizeBytes: 10, Mean: 4, Verified: true},
	}
	path := filepath.Join(dir, "peers.json")
	for _, text := range []string{"[" + one + "," + wrong + "," + two + "]", one + "\n" + link + "\n" + two + "\n" + failed + "\n", "[" + one + "]\n[" + two + "]"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := readPeers(path); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"{", "[1]", "7", `{"size_bytes":"big"}`} {
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := readPeers(path); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestRecordOf(t *testing.T) {
	r := Record{Bound: 2}.of([]float64{4, 1, 7})
	if r.Mean != 4 || r.Min != 1 || r.Max != 7 || r.Iterations != 3 || r.ratio() != 2 {
		t.Errorf("%+v", r)
	}
	if r.Bound = 0; r.ratio() != 0 {
		t.Errorf("a ratio without bound: %v", r.ratio())
	}
}

// What is saved is what is loaded, with the peers' records, and nothing else is left in the folder.
func TestFolder(t *testing.T) {
	f := &folder{path: t.TempDir(), peers: []Record{{Source: Lab, Tool: "mpich", Grid: "allgather-a"}}}
	for i := range experiments {
		e := &experiments[i]
		raw := invented(e, 1)
		if err := f.save(raw); err != nil {
			t.Fatal(err)
		}
		got, err := f.load(e)
		if err != nil {
			t.Fatal(err)
		}
		raw.Records = append(raw.Records, f.peers...)
		if !reflect.DeepEqual(got, raw) {
			t.Errorf("%s: saved\n%+v\nloaded\n%+v", e.id, raw, got)
		}
	}
	if err := f.index(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.path)
	if err != nil || len(entries) != len(experiments)+2 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

// Records of real processes come into the pages of their networks: a line for the best of each library, and
// a table of all.
func TestLabRecords(t *testing.T) {
	e := &ringsFig10
	raw := invented(e, 0)
	before := e.page(raw)
	for _, size := range []int64{1024, 2048} {
		for _, x := range []struct {
			tool, algorithm, congestion string
			mean                        float64
		}{{"mpich", "ring", "bbr", 3}, {"mpich", "brucks", "bbr", 4}, {"mpich", "ring", "cubic", 5}, {"gridagent", "auto", "quic", 2}} {
			raw.Records = append(raw.Records, Record{Source: Lab, Tool: x.tool, Collective: "allgather", Algorithm: x.algorithm, Congestion: x.congestion,
				Grid: "allgather-f", LinkRate: "5Mbps", Hosts: 32, SizeBytes: size, Mean: x.mean, Bound: 0.5})
		}
	}
	if same("aapc-conf-b") != same("aapc-journal-3") {
		t.Fatal("topologies (b) and (3) are no longer the same tree: the next lines need another pair")
	}
	other := &Raw{Records: []Record{{Source: Lab, Tool: "mpich", Collective: "alltoall", Grid: "aapc-conf-b", SizeBytes: 1024, Mean: 1}}}
	if p := aapcFig8.page(other); len(p.panels) != 1 {
		t.Errorf("%d panels of a lab record that names the tree as another paper does", len(p.panels))
	}
	after := e.page(raw)
	if len(after.panels) != len(before.panels)+1 || len(after.tables) != len(before.tables)+1 {
		t.Fatalf("%d panels and %d tables, before %d and %d", len(after.panels), len(after.tables), len(before.panels), len(before.tables))
	}
	var got []string
	for _, s := range after.panels[len(after.panels)-1].series {
		got = append(got, fmt.Sprint(s.name, s.xy))
	}
	want := []string{"mpich, bbr[{1024 3} {2048 3}]", "mpich, cubic[{1024 5} {2048 5}]", "gridagent, quic[{1024 2} {2048 2}]", "bound[{1024 0.5} {2048 0.5}]"}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	rows := after.tables[len(after.tables)-1].rows
	if last := rows[len(rows)-1]; len(rows) != 6 || last[1] != "0.667 (gridagent auto, quic / mpich ring, bbr)" {
		t.Errorf("%d rows, the last %q", len(rows), last)
	}
}

func TestActivityOf(t *testing.T) {
	got := activityOf([]gantt.Step{{At: 1, Count: 2}, {At: 2, Count: 0}, {At: 3, Count: 1}, {At: 5, Count: 0}}, 6)
	if want := (activity{most: 2, mean: 4.0 / 3, first: 1, end: 6, idle: 0.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := activityOf(nil, 6); got != (activity{end: 6}) {
		t.Errorf("no transfers: %+v", got)
	}
}

func TestImprovement(t *testing.T) {
	raw := new(Raw)
	add := func(name string, size int64, seconds float64) {
		raw.Records = append(raw.Records, Record{Source: Simulated, Grid: "g", Algorithm: name, SizeBytes: size}.one(seconds))
	}
	for i, s := range []float64{3, 1, 1} {
		add("own", int64(i+1), s)
		add("a", int64(i+1), 2)
		add("b", int64(i+1), 4)
	}
	mean, wins, of := improvement(raw, Simulated, "g", "own", []string{"a", "b"})
	if want := (-0.5 + 0.25 + 2*(0.5+0.75)) / 6; mean != want || wins != 5 || of != 6 {
		t.Errorf("%v, %d of %d", mean, wins, of)
	}
	if size, ok := firstWin(raw, Simulated, "g", "own", []string{"a", "b"}); size != 2 || !ok {
		t.Errorf("wins from %d, %v", size, ok)
	}
	if size, ok := firstWin(raw, Simulated, "g", "b", []string{"a"}); ok {
		t.Errorf("wins from %d", size)
	}
}
