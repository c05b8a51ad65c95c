package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// need skips the test if a program is missing, and fails it where CI can provide it.
func need(t *testing.T, names ...string) {
	t.Helper()
	for _, p := range names {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed: CI must run scripts/mpi install first", p)
		}
		t.Skipf("%s is not installed: scripts/mpi install provides it", p)
	}
}

func written(t *testing.T) *programs {
	t.Helper()
	p, err := newPrograms(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPattern(t *testing.T) {
	need(t, "gcc")
	p := written(t)
	out := filepath.Join(p.dir, "pattern")
	source, err := filepath.Abs("testdata/pattern.c")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.compile(t.Context(), "gcc", out, "-std=c99", "-Werror", source); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(out).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// here is the command line that starts a program on this machine with 3 ranks.
func here(l library, p *programs, program ...string) []string {
	env := []string{"LD_PRELOAD=" + p.preload}
	args := []string{"mpirun.mpich", "-genv", "LD_PRELOAD", p.preload, "-n", "3"}
	if l.tool == toolOpenMPI {
		args = []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", "false",
			"--mca", "mpi_yield_when_idle", "1", "-x", env[0], "-n", "3"}
	}
	return append(args, program...)
}

// lines runs a benchmark and returns what it reports, without the first and last line, which must be there.
func lines(t *testing.T, argv []string) []sizeLine {
	t.Helper()
	var got []sizeLine
	m := mark(fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	_, err := command{argv: argv, mark: m, limit: 20 * time.Second, env: []string{"TMPDIR=" + t.TempDir()}, line: func(text string) bool {
		var s sizeLine
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		got = append(got, s)
		return s.Done
	}}.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 2 || !got[0].Begin || !got[len(got)-1].Done {
		t.Fatalf("first and last line: %+v", got)
	}
	return got[1 : len(got)-1]
}

// TestBenchmark runs mpibench with both libraries, and asks them for their algorithms.
func TestBenchmark(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and starts MPI programs")
	}
	for _, l := range libraries {
		t.Run(l.tool, func(t *testing.T) {
			t.Parallel()
			need(t, l.cc, here(l, &programs{})[0])
			p := written(t)
			program, err := p.benchmark(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			got := lines(t, here(l, p, program, "alltoall", "together", "2", "1", "0", "1", "40000"))
			if len(got) != 3 {
				t.Fatalf("%+v, want 3 sizes", got)
			}
			for i, size := range []int64{0, 1, 40000} {
				if s := got[i]; s.Bytes != size || s.Ranks != 3 || s.Wrong != 0 || len(s.Seconds) != 2 || s.Seconds[0] <= 0 || s.Seconds[1] > 5 {
					t.Errorf("size %d: %+v", size, s)
				}
			}
			// Blocks that differ, some of them of nothing. The check sees what comes to the wrong place, and a size that is not there.
			for op, sizes := range map[string]string{"allgather": "0 40000 7\n", "alltoall": "5 0 9\n40000 1 0\n0 17 3\n"} {
				file := filepath.Join(p.dir, op+".sizes")
				if err := os.WriteFile(file, []byte(sizes), 0o600); err != nil {
					t.Fatal(err)
				}
				got := lines(t, here(l, p, program, op, "apart", "2", "1", "40000:"+file, "3"))
				if len(got) != 2 || got[0].Bytes != 40000 || got[0].Wrong != 0 || got[1].Bytes != 3 || got[1].Wrong != 0 {
					t.Errorf("%s of sizes %s: %+v", op, sizes, got)
				}
			}
			ask, err := p.variables(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			known, err := forcible(t.Context(), l, ask, "")
			if err != nil {
				t.Fatal(err)
			}
			for c, names := range known {
				if len(names) < 4 || names[0].name != byDefault {
					t.Errorf("%s: %v", c, names)
				}
			}
		})
	}
}

// TestBenchmarkFinds: the check of the benchmark can fail.
func TestBenchmarkFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and starts MPI programs")
	}
	l := libraries[1]
	need(t, l.cc, here(l, &programs{})[0])
	source, err := filepath.Abs("testdata/wrong.c")
	if err != nil {
		t.Fatal(err)
	}
	// How many of the 4 calls rank 1 must find wrong.
	for way, want := range map[string]int{"NOTHING": 0, "SWAPPED": 4, "STALE": 3, "SHIFTED": 4, "LAST_BYTE": 4} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := written(t)
			out := filepath.Join(p.dir, "wrong")
			if err := p.compile(t.Context(), l.cc, out, "-std=c99", "-DROUTINE=routine", "-DWRONG="+way, "mpibench.c", source); err != nil {
				t.Fatal(err)
			}
			got := lines(t, here(l, p, out, "allgather", "apart", "3", "1", "1000"))
			if len(got) != 1 || got[0].Wrong != want {
				t.Errorf("%+v, want %d wrong", got, want)
			}
		})
	}
}

// TestTogether: ranks begin at the same moment though one leaves the barrier late, or not if they are not to.
func TestTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and starts MPI programs")
	}
	source, err := filepath.Abs("testdata/far.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		t.Run(l.tool, func(t *testing.T) {
			need(t, l.cc, here(l, &programs{})[0])
			p := written(t)
			out := filepath.Join(p.dir, "far")
			if err := p.compile(t.Context(), l.cc, out, "-std=c99", "-DROUTINE=routine", "mpibench.c", source); err != nil {
				t.Fatal(err)
			}
			// How many times a rank found that not all had begun: three ranks, four calls.
			if got := lines(t, here(l, p, out, "allgather", "together", "3", "1", "1000")); len(got) != 1 || got[0].Wrong > 6 {
				t.Errorf("together: %+v, want all to begin at one moment, twice not at most: the machine may be busy", got)
			}
			if got := lines(t, here(l, p, out, "allgather", "apart", "3", "1", "1000")); len(got) != 1 || got[0].Wrong < 9 {
				t.Errorf("apart: %+v, want 12 times that ranks have not begun at one moment, or nearly", got)
			}
		})
	}
}

// TestRoutineName finds the function in a file of plan -o mpi-c.
func TestRoutineName(t *testing.T) {
	data, err := os.ReadFile("../../exchange/mpic/entry.c.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "\nint {{.Name}}(") {
		t.Error("gridagent plan -o mpi-c writes its function in another way")
	}
	m := routineName.FindStringSubmatch("static int a(void)\nint gridagent_alltoall_aapc(const void *sendbuf)\n{")
	if m == nil || m[1] != "gridagent_alltoall_aapc" {
		t.Errorf("%q", m)
	}
}
