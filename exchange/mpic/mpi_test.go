package mpic

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
)

// strict are the flags under which the files must be free of warnings.
var strict = []string{"-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"}

// A library is one implementation of MPI, by the names that Debian gives its programs.
type library struct {
	cc, run string
	args    []string
}

var libraries = map[string]library{
	"mpich": {"mpicc.mpich", "mpirun.mpich", nil},
	"openmpi": {"mpicc.openmpi", "mpirun.openmpi", []string{
		"--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "plm_rsh_agent", "false",
	}},
}

// need skips the test if a program is missing, and fails it where CI can provide it.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed: CI must run scripts/mpi install first", p)
		}
		t.Skipf("%s is not installed: scripts/mpi install provides it", p)
	}
}

// command runs a program and returns all that it says. It ends it, gently at first, after half a
// minute, because an MPI program that is wrong hangs.
func command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // mpirun ends its ranks
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// compile makes a program of C text and of files beside it.
func (l library) compile(t *testing.T, text []byte, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "routine.c"), filepath.Join(dir, "routine")
	if err := os.WriteFile(source, text, 0o644); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat(strict, []string{"-o", program, source}, more)
	if out, err := command(l.cc, args...); err != nil {
		t.Fatalf("%s: %v\n%s", l.cc, err, out)
	}
	return program
}

// start runs a program and returns what it says.
func (l library) start(program string, ranks int) (string, error) {
	return command(l.run, slices.Concat(l.args, []string{"-n", fmt.Sprint(ranks), program})...)
}

// TestMPI compiles plans of all kinds with two MPI libraries and runs the check that the
// file brings with it.
func TestMPI(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and starts dozens of MPI programs")
	}
	for name, l := range libraries {
		t.Run(name, func(t *testing.T) {
			need(t, l.cc, l.run)
			check := func(name string, p *plan.Plan, more ...string) {
				t.Run(name, func(t *testing.T) {
					program := l.compile(t, written(t, p, Options{WithMain: true}), more...)
					out, err := l.start(program, len(p.Hosts))
					if err != nil || !strings.Contains(out, "OK: ") {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
			polite := filepath.Join(t.TempDir(), "polite.o")
			if out, err := command(l.cc, "-c", "-o", polite, "testdata/polite.c"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, tt := range samples(t) {
				check(tt.name, tt.plan, polite)
			}
			check("without pauses", syncPlan(t))
		})
	}
}

// TestCheckFinds: the check can fail. Two blocks that change places, and a program with too few ranks.
func TestCheckFinds(t *testing.T) {
	ring, err := baseline.Ring(hosts(4), []int64{1000})
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, ring, Options{WithMain: true})
	// Rank 1 takes the places of blocks 2 and 3 for each other.
	swapped := bytes.Replace(text, []byte("int origin = blocks[i];"),
		[]byte("int origin = c->me == 1 && blocks[i] > 1 ? 5 - blocks[i] : blocks[i];"), 1)
	if bytes.Equal(text, swapped) {
		t.Fatal("what this test changes is no longer there")
	}
	for name, l := range libraries {
		t.Run(name, func(t *testing.T) {
			need(t, l.cc, l.run)
			program := l.compile(t, swapped)
			if out, err := l.start(program, 4); err == nil || !strings.Contains(out, "it is that of block") {
				t.Errorf("swapped blocks are not found: %v\n%s", err, out)
			}
			if out, err := l.start(program, 2); err == nil || !strings.Contains(out, "is for 4 ranks") {
				t.Errorf("2 ranks instead of 4 are not refused: %v\n%s", err, out)
			}
		})
	}
}

// TestErrorCodes: what a function of MPI returns comes out of the routine, also in the middle of a schedule.
func TestErrorCodes(t *testing.T) {
	text := written(t, syncPlan(t), Options{WithMain: true})
	for name, l := range libraries {
		t.Run(name, func(t *testing.T) {
			need(t, l.cc, l.run)
			for _, way := range []string{"-DFAIL_SEND", "-DFAIL_WAIT"} {
				program := l.compile(t, text, "testdata/fail.c", way)
				if out, err := l.start(program, 3); err == nil || !strings.Contains(out, "error 4242") {
					t.Errorf("%s: %v\n%s", way, err, out)
				}
			}
		})
	}
}

// TestSyntax compiles against declarations of our own, for machines without an MPI library.
func TestSyntax(t *testing.T) {
	need(t, "gcc")
	for _, tt := range samples(t) {
		source := filepath.Join(t.TempDir(), "routine.c")
		if err := os.WriteFile(source, written(t, tt.plan, Options{WithMain: true}), 0o644); err != nil {
			t.Fatal(err)
		}
		flags := slices.Concat(strict, []string{"-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-fsyntax-only", "-I", "testdata", source})
		if out, err := command("gcc", flags...); err != nil {
			t.Errorf("%s: %v\n%s", tt.name, err, out)
		}
	}
}
