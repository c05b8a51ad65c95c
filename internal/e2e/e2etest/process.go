package e2etest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Exit statuses, as docs/cli/README.md gives them.
const (
	StatusFailure     = 1
	StatusUsage       = 2
	StatusUnreachable = 3
	StatusGroup       = 4
	StatusInterrupted = 130
)

// Build builds the program into the folder dir and returns its path. flags go to go build,
// env to its environment.
func Build(dir string, env []string, flags ...string) (binary string, err error) {
	binary = filepath.Join(dir, "gridagent")
	args := append([]string{"build", "-o", binary}, flags...)
	cmd := exec.Command("go", append(args, "github.com/gridagent/gridagent/cmd/gridagent")...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build gridagent: %w\n%s", err, out)
	}
	return binary, nil
}

// A Process is one gridagent under way.
type Process struct {
	Stdout, Stderr Output
	cmd            *exec.Cmd
	done           chan struct{} // closed when it has ended
}

// An Output can be read while a process still writes to it.
type Output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Environ is the environment without the settings of whoever runs the tests. A program with the race
// detector does not sleep a second before it ends, as it otherwise would.
func Environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GRIDAGENT_") })
	if os.Getenv("GORACE") == "" {
		env = append(env, "GORACE=atexit_sleep_ms=10")
	}
	return env
}

// Start starts cmd, by default with Environ; the end of t kills it. What outlives a subtest is
// started with the t of the whole.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.Stdout, &p.Stderr
	if cmd.Env == nil {
		cmd.Env = Environ()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		cmd.Wait() // its error is the exit status
	}()
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.done
		if s := p.Stderr.String(); strings.Contains(s, "DATA RACE") || strings.Contains(s, "panic:") {
			t.Errorf("%v:\n%s", p, s)
		}
	})
	return p
}

// String is the command line.
func (p *Process) String() string {
	return strings.Join(append([]string{"gridagent"}, p.cmd.Args[1:]...), " ")
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended tells whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal to a process that has not ended.
func (p *Process) Signal(s os.Signal) {
	if !p.Ended() {
		p.cmd.Process.Signal(s)
	}
}

// Wait returns the exit status, -1 for a process that a signal ended.
func (p *Process) Wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("%v runs on after %v; standard error:\n%s", p, limit, p.Stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// OneLine fails t unless stderr is one line of gridagent's that says each of want.
func OneLine(t *testing.T, stderr string, want ...string) {
	t.Helper()
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "gridagent: ") {
		t.Errorf("standard error is not one line of gridagent's:\n%s", stderr)
	}
	for _, w := range want {
		if !strings.Contains(stderr, w) {
			t.Errorf("standard error does not say %q:\n%s", w, stderr)
		}
	}
}

// Eventually calls check until it returns nil, and fails t with its last error if that takes
// longer than limit. A check that takes long, as one that runs a command, is repeated less often:
// it must not be what keeps the machine busy.
func Eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.After(limit)
	for {
		began := time.Now()
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%v after %v", err, limit)
		case <-time.After(max(10*time.Millisecond, 5*time.Since(began))):
		}
	}
}
