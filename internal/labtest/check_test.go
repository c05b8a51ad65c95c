package labtest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// TestLabIsAsDeclared has the grid of the Min3 paper measure itself, and ends it with
// programs in its hosts.
func TestLabIsAsDeclared(t *testing.T) {
	mustBePossible(t)
	before := interfaces(t)
	l := up(t, "check", "paper-3site")
	if during := interfaces(t); !slices.Equal(before, during) {
		t.Errorf("interfaces of this machine: %v before, %v with a lab", before, during)
	}
	l.isUrgent(t)
	for attempt := 1; ; attempt++ {
		p := l.command(t, "check")
		got := p.Wait(t, 3*time.Minute)
		t.Logf("lab check:\n%s", p.Stdout.String())
		if got == 0 {
			break
		}
		// Links are slow while the host of a virtual machine gives its processors to others: that says nothing of the lab.
		if attempt == 3 || !strings.Contains(p.Stdout.String(), "processors' time to others") {
			t.Errorf("lab check: status %d: %s\n%s", got, p.Stderr.String(), p.Stdout.String())
			break
		}
	}

	sleepers := l.sleep(t, "ut0", "uk3", "nth7")
	if len(l.holders(t, now(t))) == 0 {
		t.Error("no process holds a namespace of the lab: this test would not see what is left of it")
	}
	end, began := now(t), time.Now()
	l.must(t, "down")
	t.Logf("down took %v", time.Since(began))
	l.gone(t, end, sleepers)
}

// isUrgent fails t if a thread of the supervisor has to wait for the time slices of other programs: root's must not.
func (l *lab) isUrgent(t *testing.T) {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", l.pid))
	if err != nil || len(stats) == 0 || os.Getuid() != 0 {
		t.Logf("the supervisor's threads are not looked at: %v", err)
		return
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		const policy, roundRobin = 38, "2" // sched(7)
		if fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])); fields[policy] != roundRobin {
			t.Errorf("%s: scheduling policy %s, want %s", name, fields[policy], roundRobin)
		}
	}
}

// statusNotRun is what lab exec ends with where it could not run the command, which has the others.
const statusNotRun = 125

// TestSupervisorKilled ends the process that holds a lab, and clears away what it left.
func TestSupervisorKilled(t *testing.T) {
	l := up(t, "crash", "testdata/three.yaml")
	sleepers := l.sleep(t, "a0", "b1", "c1")
	if err := syscall.Kill(l.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, 10*time.Second, func() error {
		if out := l.must(t, "status"); !strings.Contains(out, "crashed") {
			return fmt.Errorf("lab status: %s", out)
		}
		return nil
	})
	for _, tt := range []struct {
		p    *e2etest.Process
		want int
	}{{l.command(t, "stats"), e2etest.StatusFailure}, {l.exec(t, "a0", "true"), statusNotRun}} {
		if got := tt.p.Wait(t, patience); got != tt.want {
			t.Errorf("%v: status %d, want %d", tt.p, got, tt.want)
		}
		e2etest.OneLine(t, tt.p.Stderr.String(), "lab "+l.name+" has crashed", "gridagent lab down --name "+l.name)
	}
	for _, p := range sleepers {
		if p.Ended() {
			t.Errorf("%v has ended with the supervisor, and so cannot show that down ends it", p)
		}
	}
	end := now(t)
	l.must(t, "down")
	l.gone(t, end, sleepers)
}

// sleep starts programs that do not end by themselves; one of them not by SIGTERM either.
func (l *lab) sleep(t *testing.T, hosts ...string) []*e2etest.Process {
	t.Helper()
	var ps []*e2etest.Process
	for i, h := range hosts {
		line := "echo here; exec sleep 1000"
		if i == 0 {
			line = "trap '' TERM; " + line
		}
		ps = append(ps, l.exec(t, h, "sh", "-c", line))
	}
	for _, p := range ps {
		e2etest.Eventually(t, patience, func() error {
			if p.Stdout.String() == "" {
				return fmt.Errorf("%v says nothing; %s", p, p.Stderr.String())
			}
			return nil
		})
	}
	return ps
}

// gone fails t if anything of the lab is left: a process, its folder, a namespace. end is when it
// was told to end: what began later may have got the number of one of its namespaces.
func (l *lab) gone(t *testing.T, end ticks, inside []*e2etest.Process) {
	t.Helper()
	for _, p := range inside {
		if got := p.Wait(t, patience); got != -1 {
			t.Errorf("%v ended with status %d, not by a signal", p, got)
		}
	}
	for _, left := range l.holders(t, end) {
		t.Errorf("process %s is left", left)
	}
	p := l.command(t, "status")
	if got := p.Wait(t, patience); got != e2etest.StatusFailure {
		t.Errorf("lab status: %d: %s", got, p.Stdout.String())
	}
	e2etest.OneLine(t, p.Stderr.String(), "no such lab")
	if _, err := os.Lstat(l.folder()); l.as == nil && os.Getuid() == 0 && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder %s is left: %v", l.folder(), err)
	}
}

// folder is where root's labs are kept; that of other users is their own affair.
func (l *lab) folder() string { return filepath.Join("/run/gridagent-lab", l.name) }

// holders lists the processes from before end that run the program under test, are in a network
// namespace of the lab, or hold one open.
func (l *lab) holders(t *testing.T, end ticks) (found []string) {
	t.Helper()
	spaces := make(map[string]bool)
	for _, h := range l.hosts {
		spaces[fmt.Sprintf("net:[%d]", h.Inode)] = true
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d processes, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		if began, alive := startOf(dir); !alive || began > end {
			continue
		}
		links, _ := filepath.Glob(filepath.Join(dir, "fd/*")) // it may have ended
		for _, link := range append(links, filepath.Join(dir, "ns/net"), filepath.Join(dir, "exe")) {
			if to, err := os.Readlink(link); err == nil && (spaces[to] || to == binary) {
				found = append(found, fmt.Sprintf("%s: %s", link, to))
			}
		}
	}
	return found
}

// ticks is a time since boot in hundredths of a second, as in /proc.
type ticks uint64

func now(t *testing.T) ticks {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	up, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return ticks(100 * up)
}

// startOf returns when the process with a folder in /proc began, and whether it runs.
func startOf(dir string) (ticks, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, false
	}
	// The second field, the program's name, may hold blanks and brackets.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	began, err := strconv.ParseUint(fields[19], 10, 64)
	return ticks(began), err == nil && fields[0] != "Z"
}

// interfaces lists the network interfaces of this machine.
func interfaces(t *testing.T) (names []string) {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		names = append(names, i.Name)
	}
	return names
}
