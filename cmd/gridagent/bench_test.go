package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func TestSizeList(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"64KiB", "64KiB"},
		{"64KiB, 1MiB,0B", "64KiB,1MiB,0B"},
		{"1KiB..8KiB", "1KiB,2KiB,4KiB,8KiB"},
		{"1KiB..7KiB,3B", "1KiB,2KiB,4KiB,3B"},
		{"3B..3B", "3B"},
		{"8EiB", ""}, {"64", ""}, {"", ""}, {"1KiB,", ""}, {"0B..4B", ""}, {"4B..2B", ""}, {"1KiB..", ""}, {"-1B", ""},
	} {
		l := &sizeList{bytes: []int64{7}}
		err := l.Set(tt.in)
		if (err != nil) != (tt.want == "") || err == nil && l.String() != tt.want {
			t.Errorf("%q: %s, %v; want %s", tt.in, l, err, tt.want)
		}
		if err != nil && l.String() != "7B" {
			t.Errorf("%q: refused, but the list is %s", tt.in, l)
		}
	}
	l := &sizeList{bytes: []int64{7}}
	for _, s := range []string{"1B", "2B"} {
		if err := l.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	if l.String() != "1B,2B" {
		t.Errorf("given twice: %s", l)
	}
}

// TestBenchExitStatus checks that wrong data is the benchmark's result, and a mismatch the
// group's failure.
func TestBenchExitStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{&bench.WrongDataError{Rank: 2, Host: "b", From: -1, Cause: "9 bytes in 1 blocks, want 2 blocks of 9"}, exitFailure},
		{&bench.MismatchError{Rank: 1, Host: "b", Cause: "--warmup: 1 at rank 1, 0 at rank 0"}, exitGroup},
	} {
		agreed := benchAgreed(fmt.Errorf("wrapped: %w", tt.err))
		if agreed == nil {
			t.Errorf("%v: not one that all ranks get", tt.err)
			continue
		}
		var out bytes.Buffer
		a := &app{err: &out}
		if got := a.report(agreed, true); got != tt.want || !strings.Contains(out.String(), tt.err.Error()) {
			t.Errorf("%v: status %d, want %d; printed %q", tt.err, got, tt.want, out.String())
		}
	}
	if err := benchAgreed(context.Canceled); err != nil {
		t.Errorf("all ranks get %v", err)
	}
}

// TestBenchTable checks what is printed of a benchmark that did not come to its end: sizes
// without a bound and without WAN traffic, and a site without a label.
func TestBenchTable(t *testing.T) {
	report := &bench.Report{Collective: "allgather", Ranks: 3, Hosts: []string{"a", "b", "b"}, Warmup: 1, Sizes: []bench.Size{
		{Bytes: 0, Algorithm: "ring", Mean: 0.002, Min: 0.001, Max: 0.003, Iterations: make([]bench.Iteration, 2)},
		{Bytes: 65536, Algorithm: "min3,ring", Mean: 2, Min: 1, Max: 3, Bound: 1.25, Ratio: 1.6, Mbps: 0.524288, Iterations: make([]bench.Iteration, 2),
			WAN: []bench.Crossing{{From: "X", To: "", Bytes: 1023.5}}},
	}}
	f := &benchFlags{rankFlags: &rankFlags{output: &choice{value: "table"}}, iterations: 2, sizes: &sizeList{bytes: make([]int64, 5)}}
	var out bytes.Buffer
	if err := (&app{out: &out}).printBench(f, report, false); err != nil {
		t.Fatal(err)
	}
	want := `allgather of 3 ranks on 2 hosts, 2 iterations after 1 to warm up; ended after 2 of 5 sizes

SIZE   ALGORITHM  ITERATIONS  MEAN  MIN  MAX  BOUND  X BOUND  BUS MBIT/S
0B     ring       2           2ms   1ms  3ms  -      -        0
64KiB  min3,ring  2           2s    1s   3s   1.25s  1.60     0.524

bytes from site to site, mean of an operation:
SIZE   X→?
0B     0B
64KiB  1KiB
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// sockets starts three agents on two emulated sites and returns their Unix sockets.
func sockets(t *testing.T) []string {
	t.Helper()
	g, err := gridfile.Parse("test", []byte(`
sites:
  - {name: X, hosts: 2, lan: {bandwidth: 100Mbps, latency: 100us}}
  - {name: Y, hosts: 1, lan: {bandwidth: 100Mbps, latency: 100us}}
wan:
  - {from: X, to: Y, bandwidth: 20Mbps, latency: 2ms, both: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var paths []string
	running, err := grid.Start(context.Background(), grid.Config{
		Grid: g, Dir: filepath.Join(dir, "agents"), Seed: 1, RealTime: true,
		Agent: func(o *agent.Options) {
			path := filepath.Join(dir, fmt.Sprint(len(paths)))
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
			o.API = l
			o.MapWait = time.Millisecond // what is tested here needs no map
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "agents", "*", "spool", "*.blk")); len(left) > 0 { // the pattern is good
			t.Errorf("left in the spool: %q", left)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := running.WaitMembers(ctx); err != nil {
		t.Fatal(err)
	}
	return paths
}

// An ended is one rank's command that has.
type ended struct {
	status    int
	out, errs string
}

// benchRanks runs the command at each rank, with the arguments of all and those of its own.
func benchRanks(t *testing.T, sockets []string, all string, own map[int]string, cancelled map[int]context.Context) []ended {
	t.Helper()
	ends := make([]ended, len(sockets))
	done := make(chan struct{})
	for rank, socket := range sockets {
		go func() {
			defer func() { done <- struct{}{} }()
			ctx := t.Context()
			if c, ok := cancelled[rank]; ok {
				ctx = c
			}
			args := strings.Fields(fmt.Sprintf("%s --socket %s --rank %d --ranks %d %s", all, socket, rank, len(sockets), own[rank]))
			var o, e bytes.Buffer
			a := &app{in: strings.NewReader(""), out: &o, err: &e}
			ends[rank] = ended{status: a.run(ctx, args), out: o.String(), errs: e.String()}
		}()
	}
	for range sockets {
		<-done
	}
	return ends
}

// TestBenchOnAgents runs the command at three ranks with real agents between them.
func TestBenchOnAgents(t *testing.T) {
	t.Parallel() // the agents take 3 s to leave
	sockets := sockets(t)
	t.Run("table", func(t *testing.T) {
		ends := benchRanks(t, sockets, "bench allgather --job t --sizes 1KiB..2KiB,0B --iterations 2 --algorithm ring", nil, nil)
		for rank, e := range ends {
			if e.status != exitOK || e.errs != "" || rank > 0 && e.out != "" {
				t.Fatalf("rank %d: status %d, %q, %q", rank, e.status, e.out, e.errs)
			}
		}
		lines := strings.Split(ends[0].out, "\n")
		for i, want := range [][]string{
			{"allgather of 3 ranks on 3 hosts, 2 iterations after 1 to warm up; all data verified"},
			nil,
			{"SIZE", "ALGORITHM", "ITERATIONS", "MEAN", "MIN", "MAX", "BOUND", "X BOUND", "BUS MBIT/S"},
			{"1KiB ", " ring ", " 2 ", "s "}, {"2KiB "}, {"0B "},
			nil,
			{"bytes from site to site, mean of an operation:"},
			{"SIZE", "X→Y", "Y→X"},
			{"1KiB  2KiB  2KiB"}, // in a ring each host sends on all blocks but one
			{"2KiB  4KiB  4KiB"},
			{"0B    0B    0B"},
		} {
			for _, w := range want {
				if i >= len(lines) || !strings.Contains(lines[i], w) {
					t.Fatalf("line %d has no %q:\n%s", i, w, ends[0].out)
				}
			}
		}
	})
	t.Run("json", func(t *testing.T) {
		ends := benchRanks(t, sockets, "bench alltoall --job j --sizes 3000B --iterations 2 --warmup 0 --algorithm shift -o json", nil, nil)
		if ends[0].status != exitOK || ends[1].status != exitOK || ends[2].status != exitOK || ends[1].out != "" {
			t.Fatalf("%+v", ends)
		}
		dec := json.NewDecoder(strings.NewReader(ends[0].out))
		dec.DisallowUnknownFields()
		var r bench.Report
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, ends[0].out)
		}
		if r.Collective != "alltoall" || r.Algorithm != "shift" || r.Ranks != 3 || !slices.Equal(r.Sites, []string{"X", "X", "Y"}) ||
			len(r.Sizes) != 1 || r.Sizes[0].Bytes != 3000 || r.Sizes[0].Algorithm != "shift" || len(r.Sizes[0].Iterations) != 2 ||
			!slices.Equal(r.Sizes[0].WAN, []bench.Crossing{{From: "X", To: "Y", Bytes: 6000}, {From: "Y", To: "X", Bytes: 6000}}) {
			t.Errorf("%s", ends[0].out)
		}
		for _, key := range []string{`"size_bytes": 3000`, `"mean_seconds": `, `"bound_seconds": `, `"bound_ratio": `, `"bus_mbps": `, `"rank_seconds": [`, `"agent_seconds": [`, `"predicted_seconds": `, `"wan": [`} {
			if !strings.Contains(ends[0].out, key) {
				t.Errorf("no %s in %s", key, ends[0].out)
			}
		}
	})
	t.Run("plan", func(t *testing.T) {
		dir := t.TempDir()
		tree := filepath.Join(dir, "tree.json")
		if err := os.WriteFile(tree, []byte(`{"switches":["s"],"links":[],"hosts":{"x0":"s","x1":"s","y0":"s"},"bandwidth_mbps":20}`), 0o600); err != nil {
			t.Fatal(err)
		}
		var made, errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &made, err: &errs}
		if status := a.run(t.Context(), strings.Fields("plan allgather --topology "+tree+" --algorithm lr3 --size 2KiB -o json")); status != exitOK {
			t.Fatalf("status %d, %s", status, errs.String())
		}
		path := filepath.Join(dir, "plan.json")
		if err := os.WriteFile(path, made.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		// An agent by itself knows no switches, and so no lr3.
		ends := benchRanks(t, sockets, "bench allgather --job p --sizes 2KiB --iterations 2 -o json", map[int]string{1: "--plan " + path}, nil)
		var r bench.Report
		if err := json.Unmarshal([]byte(ends[0].out), &r); err != nil || len(r.Sizes) != 1 || r.Sizes[0].Algorithm != "lr3" || len(r.Sizes[0].Iterations) != 2 {
			t.Errorf("%v; status %d, %s%s", err, ends[0].status, ends[0].out, ends[0].errs)
		}
		e := benchRanks(t, sockets[:1], "bench allgather --job p --sizes 2KiB,4KiB --plan "+path, nil, nil)[0]
		if e.status != exitUsage || !strings.Contains(e.errs, "a plan is for blocks of one size") {
			t.Errorf("two sizes: status %d, %s", e.status, e.errs)
		}
	})
	t.Run("one rank", func(t *testing.T) {
		e := benchRanks(t, sockets[:1], "bench alltoall --job one --iterations 1", nil, nil)[0]
		if e.status != exitOK || !strings.Contains(e.out, "alltoall of 1 ranks on 1 hosts") || strings.Contains(e.out, "site to site") {
			t.Errorf("status %d, %q, %q", e.status, e.out, e.errs)
		}
	})
	t.Run("ranks disagree", func(t *testing.T) {
		for rank, e := range benchRanks(t, sockets, "bench alltoall --job d --algorithm aapc", map[int]string{1: "--sizes 1KiB", 0: "--sync receiver"}, nil) {
			if want := "gridagent: the ranks disagree: --sizes: 1KiB at rank 1, 64KiB at rank 0\n"; e.status != exitGroup || e.errs != want {
				t.Errorf("rank %d: status %d, %q, want %q", rank, e.status, e.errs, want)
			}
		}
		for rank, e := range benchRanks(t, sockets, "bench alltoall --job d --algorithm aapc", map[int]string{2: "--sync sender"}, nil) {
			if want := "gridagent: the ranks disagree: --sync: sender at rank 2, nothing at rank 0\n"; e.status != exitGroup || e.errs != want {
				t.Errorf("rank %d: status %d, %q, want %q", rank, e.status, e.errs, want)
			}
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		begun := time.Now()
		time.AfterFunc(500*time.Millisecond, interrupt)
		ends := benchRanks(t, sockets, "bench allgather --job i --sizes 1B --iterations 100000", nil, map[int]context.Context{1: ctx})
		for rank, e := range ends {
			want, says := exitGroup, "rank 1 on host x1 is lost"
			if rank == 1 {
				want, says = exitInterrupted, "interrupted"
			}
			if e.status != want || !strings.Contains(e.errs, says) || e.out != "" {
				t.Errorf("rank %d: status %d, %q, %q", rank, e.status, e.out, e.errs)
			}
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the ranks ended after %v", took)
		}
	})
}
