package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"

	// The binary's packages: see TestSources.
	_ "github.com/gridagent/gridagent/agent"
	_ "github.com/gridagent/gridagent/agent/client"
	_ "github.com/gridagent/gridagent/exchange/planner"
	_ "github.com/gridagent/gridagent/internal/demo"
)

// binary is the program under test, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gridagent-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "gridagent")
	out, err := exec.Command("go", "build", raceFlag, "-o", binary, "../../cmd/gridagent").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build gridagent: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// TestSources reads the files of the command, which go test takes note of (only from
// within a test): without it, and without the imports above, it would not know that they
// have changed, and repeat an old result.
func TestSources(t *testing.T) {
	names, err := filepath.Glob("../../cmd/gridagent/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("sources of the command: %d, %v", len(names), err)
	}
	for _, n := range names {
		if _, err := os.ReadFile(n); err != nil {
			t.Error(err)
		}
	}
}

// A process is one gridagent under way.
type process struct {
	args   []string
	cmd    *exec.Cmd
	stdout bytes.Buffer // read after wait
	stderr lockedBuffer
	done   chan struct{} // closed when it has ended
}

// A lockedBuffer can be read while a process still writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs gridagent in the background; the end of t kills it. Agents that outlive a
// subtest are started with the t of the whole.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startIn(t, "", args...)
}

// startIn is start in a working directory.
func startIn(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{args: args, done: make(chan struct{})}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	for _, kv := range os.Environ() { // settings of whoever runs the tests
		if !strings.HasPrefix(kv, "GRIDAGENT_") {
			p.cmd.Env = append(p.cmd.Env, kv)
		}
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait() // its error is the exit status
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if strings.Contains(p.stderr.String(), "DATA RACE") || strings.Contains(p.stderr.String(), "panic:") {
			t.Errorf("gridagent %s:\n%s", strings.Join(args, " "), p.stderr.String())
		}
	})
	return p
}

func (p *process) signal(s os.Signal) {
	select {
	case <-p.done:
	default:
		p.cmd.Process.Signal(s)
	}
}

// wait returns the exit status, -1 for a process that a signal ended.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("gridagent %s runs on after %v; standard error:\n%s", strings.Join(p.args, " "), limit, p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// run runs gridagent to its end and fails the test unless its exit status is want.
func run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := start(t, args...)
	if got := p.wait(t, 60*time.Second); got != want {
		t.Fatalf("gridagent %s: status %d, want %d; standard error:\n%s", strings.Join(args, " "), got, want, p.stderr.String())
	}
	return p.stdout.String(), p.stderr.String()
}

// refuse runs gridagent, which must fail with the status and one line that says each of want.
func refuse(t *testing.T, status int, want []string, args ...string) {
	t.Helper()
	_, stderr := run(t, status, args...)
	oneLine(t, stderr, want...)
}

func oneLine(t *testing.T, stderr string, want ...string) {
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

// A node is one host of the cluster under test.
type node struct {
	*process
	name, dir, addr string
}

// freeAddr returns a UDP address that was free a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// newCluster runs init, then join on the first host, and returns it with a token.
func newCluster(t *testing.T, name string) (*node, string) {
	t.Helper()
	n := &node{name: name, dir: filepath.Join(t.TempDir(), name), addr: freeAddr(t)}
	token, _ := run(t, 0, "init", "--dir", n.dir, "--name", name, "--site", "X", "--bind", n.addr)
	n.restart(t)
	return n, strings.TrimSpace(token)
}

// join runs join with a token on a new host.
func (n *node) join(t *testing.T, name, token string) *node {
	t.Helper()
	m := &node{name: name, dir: filepath.Join(t.TempDir(), name), addr: freeAddr(t)}
	m.process = start(t, "join", n.addr, "--token", token, "--dir", m.dir, "--name", name, "--site", "Y", "--bind", m.addr)
	return m
}

// restart runs the agent of a folder that holds its cluster already. The agent is given
// the folder by a relative path: its clients stand elsewhere and must find what it makes.
func (n *node) restart(t *testing.T) {
	t.Helper()
	n.process = startIn(t, filepath.Dir(n.dir), "join", "--dir", filepath.Base(n.dir))
}

func (n *node) api(t *testing.T) *client.Client {
	c := client.New(filepath.Join(n.dir, "agent.sock"))
	t.Cleanup(c.Close)
	return c
}

func waitMembers(t *testing.T, want int, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		p := start(t, "members", "--dir", n.dir, "--wait", fmt.Sprint(want), "--timeout", "30s")
		if p.wait(t, 40*time.Second) != 0 {
			logs := ""
			for _, n := range nodes {
				logs += fmt.Sprintf("\nthe log of %s:\n%s", n.name, n.stderr.String())
			}
			t.Fatalf("%s: %s%s%s", n.name, p.stdout.String(), p.stderr.String(), logs)
		}
	}
}

// ranks starts one allgather command a rank: rank r at nodes[r], with in[r] and out[r].
func ranks(t *testing.T, job string, at []*node, in, out []string, extra ...string) []*process {
	t.Helper()
	return collective(t, "allgather", job, at, in, out, extra...)
}

// collective is ranks of any command.
func collective(t *testing.T, command, job string, at []*node, in, out []string, extra ...string) []*process {
	t.Helper()
	ps := make([]*process, len(at))
	for r, n := range at {
		args := []string{command, "--dir", n.dir, "--job", job, "--rank", fmt.Sprint(r), "--ranks", fmt.Sprint(len(at)), "--in", in[r], "--out", out[r]}
		ps[r] = start(t, append(args, extra...)...)
	}
	return ps
}

// underWay waits until rank of job at n has received some and not all of its result.
func underWay(t *testing.T, n *node, job string, rank uint32) {
	t.Helper()
	api := n.api(t).API()
	eventually(t, 30*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := api.Progress(ctx, connect.NewRequest(&apiv1.ProgressRequest{Job: job, Rank: rank}))
		switch {
		case err != nil:
			return err
		case r.Msg.BytesDone == 0:
			return errors.New("nothing has arrived")
		case r.Msg.BytesDone == r.Msg.BytesTotal:
			t.Fatal("all has arrived: the files are too small for this machine")
		}
		return nil
	})
}

func eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%v after %v", err, limit)
		case <-tick.C:
		}
	}
}

// files returns n paths in a fresh folder.
func files(t *testing.T, n int) []string {
	dir := t.TempDir()
	out := make([]string, n)
	for i := range out {
		out[i] = filepath.Join(dir, fmt.Sprintf("f%d", i))
	}
	return out
}

// big makes n files of size bytes without writing any: holes read as zeros.
func big(t *testing.T, n int, size int64) []string {
	t.Helper()
	out := files(t, n)
	for _, name := range out {
		f, err := os.Create(name)
		if err == nil {
			err = errors.Join(f.Truncate(size), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// noOutput fails if any of the outputs, or a part of one, is there.
func noOutput(t *testing.T, out []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(out[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("output %s was left behind", e.Name())
	}
}

// sameBytes compares a file with the concatenation of others, without holding either.
func sameBytes(t *testing.T, file string, parts []string) {
	t.Helper()
	var readers []io.Reader
	for _, p := range parts {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		readers = append(readers, f)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	want, err := io.ReadAll(io.MultiReader(readers...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s holds %d bytes that are not the %d of the inputs in rank order", file, len(got), len(want))
	}
}
