package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// markName is a variable in the environment of everything that this program starts. Launchers of
// MPI libraries leave the session and the process group of who started them, and what they start in
// another host has no pipe to them: its environment is what it cannot lose.
const markName = "GRIDAGENT_PEERS"

// A mark is the value of markName in the processes of one run; "" leaves them without.
type mark string

// sweep kills the processes of the mark, and those of marks that begin with it and a dot, until there are none.
func (m mark) sweep() {
	if m == "" {
		return
	}
	for range 50 {
		found := m.processes()
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processes lists the live processes of the mark.
func (m mark) processes() []int {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil // cannot be: the pattern is right
	}
	var found []int
	for _, path := range environs {
		data, err := os.ReadFile(path) // empty for a process that has ended
		if err != nil {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil && m.in(string(data)) {
			found = append(found, pid)
		}
	}
	return found
}

// in tells whether an environment, variables with a zero byte behind each, holds the mark.
func (m mark) in(environ string) bool {
	for v := range strings.SplitSeq(environ, "\x00") {
		if value, ok := strings.CutPrefix(v, markName+"="); ok {
			return value == string(m) || strings.HasPrefix(value, string(m)+".")
		}
	}
	return false
}

// env is the environment of a process of the mark.
func (m mark) env(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, markName+"=") {
			env = append(env, v)
		}
	}
	if m != "" {
		env = append(env, markName+"="+string(m))
	}
	return append(env, more...)
}

// A command is one program to be run to its end.
type command struct {
	argv  []string
	env   []string
	mark  mark
	limit time.Duration // 0: none but the context's
	// line, if not nil, is told of each line of standard output. Where it returns true all
	// is said: what has not ended grace later is killed, which is no error.
	line func(string) bool
	errs *tail // takes standard error; nil: it is in the error only
}

const grace = 5 * time.Second

var errTimeLimit = errors.New("time limit")

// run returns what the command printed, but for lines that were told. Whatever it started has ended when it returns.
func (c command) run(ctx context.Context) (string, error) {
	defer c.mark.sweep()
	if c.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("%w of %v", errTimeLimit, c.limit))
		defer cancel()
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.mark.env(c.env...)
	// Ctrl-C is for this program, which ends the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	errs := c.errs
	if errs == nil {
		errs = new(tail)
	}
	cmd.Stderr = errs
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill()
		c.mark.sweep()
	})()
	var text strings.Builder
	said := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		switch {
		case c.line == nil:
			text.WriteString(lines.Text() + "\n")
		case c.line(lines.Text()) && !said:
			said = true
			defer time.AfterFunc(grace, enough).Stop()
		}
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	switch {
	case said:
		return text.String(), nil
	case ctx.Err() != nil:
		return text.String(), context.Cause(ctx)
	case err != nil:
		return text.String(), fmt.Errorf("%s: %w: %s", filepath.Base(c.argv[0]), err, errs.String())
	case c.line != nil:
		return "", fmt.Errorf("it ended without a last word: %s", errs.String())
	}
	return text.String(), nil
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

const tailBytes = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > tailBytes {
		t.text = append([]byte("…"), t.text[len(t.text)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
