package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// finish waits for commands that must go well and compares what they wrote. It returns the
// report of rank 0.
func finish(t *testing.T, what string, ps []*e2etest.Process, out []string, want [][]string) (report map[string]any) {
	t.Helper()
	for r, p := range ps {
		if got := p.Wait(t, time.Minute); got != 0 {
			t.Fatalf("%s: rank %d: status %d: %s", what, r, got, p.Stderr.String())
		}
		e2etest.SameBytes(t, out[r], want[r])
	}
	if err := json.Unmarshal([]byte(ps[0].Stdout.String()), &report); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, ps[0].Stdout.String())
	}
	return report
}

// alltoalls runs six ranks on three hosts with equal blocks, with sizes on the command line
// and from a file, and what the command refuses.
func alltoalls(t *testing.T, six []*node) {
	const seed = 21
	in, want := e2etest.Cut(t, seed, 6, func(int, int) int { return 70_001 })
	for _, extra := range [][]string{{}, {"--algorithm", "pairwise"}, {"--algorithm", "group-shuffle", "--fanout", "2"}} {
		what := fmt.Sprintf("seed %d, equal blocks, %v", seed, extra)
		out := e2etest.Files(t, 6)
		ps := collective(t, "alltoall", "equal", six, in, out, append(extra, "-o", "json")...)
		report := finish(t, what, ps, out, want)
		if report["ranks"] != 6.0 || report["hosts"] != 3.0 || report["plan_given"] != false || len(extra) > 0 && report["algorithm"] != extra[1] {
			t.Errorf("%s: report %v", what, report)
		}
	}
	size := func(s, d int) int { return (s*d*7919 + 13*s) % 50_000 * ((s + d) % 3) }
	in, want = e2etest.Cut(t, seed+1, 6, size)
	table := filepath.Join(t.TempDir(), "sizes")
	var text strings.Builder
	for s := range 6 {
		for d := range 6 {
			fmt.Fprintf(&text, "%dB ", size(s, d))
		}
		fmt.Fprintln(&text)
	}
	if err := os.WriteFile(table, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out := e2etest.Files(t, 6)
	finish(t, "sizes from a file", collective(t, "alltoall", "sizes", six, in, out, "--size-file", table, "-o", "json"), out, want)
	out = e2etest.Files(t, 6)
	ps := make([]*e2etest.Process, 6)
	for s, n := range six {
		var sizes []string
		for d := range 6 {
			sizes = append(sizes, fmt.Sprintf("%dB", size(s, d)))
		}
		ps[s] = start(t, "alltoall", "--dir", n.dir, "--job", "list", "--rank", fmt.Sprint(s), "--ranks", "6", "--in", in[s], "--out", out[s],
			"--sizes", strings.Join(sizes, ","), "-o", "json")
	}
	finish(t, "sizes on the command line", ps, out, want)

	small := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(small, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"alltoall", "--dir", six[0].dir, "--job", "x", "--rank", "0", "--ranks", "2", "--in", small, "--out", small + ".out"}
	for _, tt := range []struct {
		status int
		want   string
		extra  []string
	}{
		{e2etest.StatusFailure, "5 bytes, which are not 2 blocks of one size", nil},
		{e2etest.StatusFailure, "5 bytes, which is not what the sizes", []string{"--sizes", "2B,2B"}},
		{e2etest.StatusUsage, "3 sizes for 2 ranks", []string{"--sizes", "2B,2B,1B"}},
		{e2etest.StatusUsage, "rank 1", []string{"--sizes", "2B,x"}},
		{e2etest.StatusUsage, "is not for shift", []string{"--algorithm", "shift", "--sync", "sender"}},
		{e2etest.StatusUsage, "min3", []string{"--algorithm", "min3", "--fanout", "2"}},
		{e2etest.StatusUsage, "give one of the two", []string{"--algorithm", "shift", "--plan", "p"}},
		{e2etest.StatusUsage, "size-file", []string{"--sizes", "5B,0", "--size-file", table}},
		{e2etest.StatusFailure, table + ":1: 6 sizes", []string{"--size-file", table}},
		{e2etest.StatusFailure, "no-such-plan", []string{"--sizes", "5B,0", "--plan", "no-such-plan"}},
	} {
		refuse(t, tt.status, []string{tt.want}, append(command[:len(command):len(command)], tt.extra...)...)
	}
}

// givenPlans runs plans made from the live map: of an allgather and of an alltoall, brought by
// all ranks and by one; and one for other sizes, which all ranks are told of.
func givenPlans(t *testing.T, grid string, at []*node) {
	dir := t.TempDir()
	sizes := map[string]string{"allgather": "30000B", "alltoall": "10000B"}
	for _, c := range []string{"allgather", "alltoall"} {
		text, _ := run(t, 0, "plan", c, "--grid", grid, "--algorithm", "ring", "--size", sizes[c], "-o", "json")
		file := filepath.Join(dir, c)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in, want := e2etest.Cut(t, 23, 3, func(int, int) int { return 10_000 })
		if c == "allgather" {
			want = [][]string{in, in, in}
		}
		out := e2etest.Files(t, 3)
		report := finish(t, c, collective(t, c, "given", at, in, out, "--plan", file, "-o", "json"), out, want)
		if report["plan_given"] != true || report["algorithm"] != "ring" {
			t.Errorf("%s: report %v", c, report)
		}
		one := func(in []string, out []string) []*e2etest.Process {
			ps := make([]*e2etest.Process, 3)
			for r, n := range at {
				args := []string{c, "--dir", n.dir, "--job", "one", "--rank", fmt.Sprint(r), "--ranks", "3", "--in", in[r], "--out", out[r]}
				if r == 2 {
					args = append(args, "--plan", file)
				}
				ps[r] = start(t, args...)
			}
			return ps
		}
		out = e2etest.Files(t, 3)
		for r, p := range one(in, out) {
			said := "(from " + file + ")"
			if r != 2 {
				said = "(from a plan that another rank gave)"
			}
			if got := p.Wait(t, time.Minute); got != 0 || !strings.Contains(p.Stdout.String(), "ring "+said+" "+c+" of 3 ranks") {
				t.Errorf("%s: rank %d: status %d: %s%s", c, r, got, p.Stdout.String(), p.Stderr.String())
			}
			e2etest.SameBytes(t, out[r], want[r])
		}
		for r, p := range one(e2etest.Sparse(t, 3, 30_003), e2etest.Files(t, 3)) {
			if got := p.Wait(t, time.Minute); got != e2etest.StatusGroup {
				t.Errorf("%s: rank %d: status %d: %s", c, r, got, p.Stderr.String())
			}
			e2etest.OneLine(t, p.Stderr.String(), "rank 2 on host a failed: its plan: it has ", "make it for these sizes")
		}
		// What is no plan is refused before the group forms, by line.
		broken := filepath.Join(dir, "broken")
		if err := os.WriteFile(broken, []byte(strings.Replace(text, `"dst":`, `"dst":9`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		refuse(t, e2etest.StatusFailure, []string{broken + ":"}, c, "--dir", at[0].dir, "--job", "b", "--rank", "0", "--ranks", "3", "--in", in[0], "--out", out[0]+"x", "--plan", broken)
	}
}
