package labtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// binary is the program under test, built by TestMain.
var binary string

// impossible says why this run can make no labs, if it cannot.
var impossible string

// noLab begins the words of a test that is skipped for that; scripts/clocks looks for it.
const noLab = "no lab here: "

// nobody has no rights on any system.
var nobody = &syscall.Credential{Uid: 65534, Gid: 65534}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == packetSink || os.Args[1] == packetSender) {
		fmt.Fprintln(os.Stderr, packets(os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if mode := os.Getenv("GRIDAGENT_LAB_TESTS"); mode != "1" && mode != "all" {
		impossible = "these tests go by the clock, and what runs beside them must give way: scripts/clocks"
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "gridagent-labtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	err = os.Chmod(dir, 0o755) // for nobody
	if err == nil {
		binary, err = e2etest.Build(dir, []string{"CGO_ENABLED=0"})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	clearLeftovers(nil)
	if os.Getuid() == 0 {
		clearLeftovers(nobody)
	}
	name := labName("possible")
	if out, err := command(nil, "lab", "up", "testdata/three.yaml", "--name", name).CombinedOutput(); err != nil {
		impossible = noLab + strings.TrimSpace(string(out))
	} else if out, err := command(nil, "lab", "down", "--name", name).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "end the first lab: %v: %s", err, out)
		return 1
	}
	return m.Run()
}

// command is gridagent as a user, nil for the one who runs the tests.
func command(as *syscall.Credential, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = e2etest.Environ()
	if as != nil {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR=") // that one is not this user's
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	return cmd
}

// Names of labs are labtest-PID-WHAT, with the number of the process that runs the tests.
const prefix = "labtest"

func labName(what string) string { return fmt.Sprintf("%s-%d-%s", prefix, os.Getpid(), what) }

// clearLeftovers ends the labs of runs of these tests that crashed.
func clearLeftovers(as *syscall.Credential) {
	out, err := command(as, "lab", "status", "-o", "json").Output()
	var labs []struct{ Name string }
	if err != nil || json.Unmarshal(out, &labs) != nil {
		return // what is wrong with labs is for the tests to say
	}
	for _, l := range labs {
		rest, ours := strings.CutPrefix(l.Name, prefix+"-")
		run, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(run); !ours || err != nil || runsTests(pid) {
			continue
		}
		out, err := command(as, "lab", "down", "--name", l.Name).CombinedOutput()
		fmt.Printf("end lab %s, which an earlier run left: %v %s\n", l.Name, err, out)
	}
}

// runsTests tells whether a process is another run of these tests.
func runsTests(pid int) bool {
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	return err == nil && pid != os.Getpid() && strings.HasPrefix(string(comm), prefix)
}

// mustBeAll skips a test that takes minutes, unless all are asked for: what scripts/clocks runs must
// end within minutes.
func mustBeAll(t *testing.T) {
	t.Helper()
	if os.Getenv("GRIDAGENT_LAB_TESTS") != "all" {
		t.Skip("takes minutes: set GRIDAGENT_LAB_TESTS=all")
	}
}
