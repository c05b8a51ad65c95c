package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/e2e/e2etest"

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
	if binary, err = e2etest.Build(dir, nil, raceFlag); err != nil {
		fmt.Fprintln(os.Stderr, err)
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

// start runs gridagent in the background; the end of t kills it. Agents that outlive a
// subtest are started with the t of the whole.
func start(t *testing.T, args ...string) *e2etest.Process {
	t.Helper()
	return startIn(t, "", args...)
}

// startIn is start in a working directory.
func startIn(t *testing.T, dir string, args ...string) *e2etest.Process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	return e2etest.Start(t, cmd)
}

// run runs gridagent to its end and fails the test unless its exit status is want.
func run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := start(t, args...)
	if got := p.Wait(t, 60*time.Second); got != want {
		t.Fatalf("gridagent %s: status %d, want %d; standard error:\n%s", strings.Join(args, " "), got, want, p.Stderr.String())
	}
	return p.Stdout.String(), p.Stderr.String()
}

// refuse runs gridagent, which must fail with the status and one line that says each of want.
func refuse(t *testing.T, status int, want []string, args ...string) {
	t.Helper()
	_, stderr := run(t, status, args...)
	e2etest.OneLine(t, stderr, want...)
}

// A node is one host of the cluster under test.
type node struct {
	*e2etest.Process
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
	m.Process = start(t, "join", n.addr, "--token", token, "--dir", m.dir, "--name", name, "--site", "Y", "--bind", m.addr)
	return m
}

// restart runs the agent of a folder that holds its cluster already. The agent is given
// the folder by a relative path: its clients stand elsewhere and must find what it makes.
func (n *node) restart(t *testing.T) {
	t.Helper()
	n.Process = startIn(t, filepath.Dir(n.dir), "join", "--dir", filepath.Base(n.dir))
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
		if p.Wait(t, 40*time.Second) != 0 {
			logs := ""
			for _, n := range nodes {
				logs += fmt.Sprintf("\nthe log of %s:\n%s", n.name, n.Stderr.String())
			}
			t.Fatalf("%s: %s%s%s", n.name, p.Stdout.String(), p.Stderr.String(), logs)
		}
	}
}

// ranks starts one allgather command a rank: rank r at nodes[r], with in[r] and out[r].
func ranks(t *testing.T, job string, at []*node, in, out []string, extra ...string) []*e2etest.Process {
	t.Helper()
	return collective(t, "allgather", job, at, in, out, extra...)
}

// collective is ranks of any command.
func collective(t *testing.T, command, job string, at []*node, in, out []string, extra ...string) []*e2etest.Process {
	t.Helper()
	ps := make([]*e2etest.Process, len(at))
	for r, n := range at {
		args := []string{command, "--dir", n.dir, "--job", job, "--rank", fmt.Sprint(r), "--ranks", fmt.Sprint(len(at)), "--in", in[r], "--out", out[r]}
		ps[r] = start(t, append(args, extra...)...)
	}
	return ps
}

// underWay starts an allgather of one rank at each of at and returns in the middle of it: all have received
// some of their result, and none of bigFile a rank more than half. Where the machine is too fast for that it takes larger
// files, of which as many bytes must be left.
func underWay(t *testing.T, job string, at []*node) (ps []*e2etest.Process, out []string) {
	t.Helper()
	sockets := make([]string, len(at))
	for r, n := range at {
		sockets[r] = filepath.Join(n.dir, "agent.sock")
	}
	for size := int64(bigFile); size <= 8*bigFile; size *= 2 {
		name := fmt.Sprintf("%s-%d", job, size>>20)
		out = e2etest.Files(t, len(at))
		ps = ranks(t, name, at, e2etest.Sparse(t, len(at), size), out)
		if e2etest.Caught(t, sockets, name, ps, uint64(len(at))*bigFile/2) {
			return ps, out
		}
		for r, p := range ps {
			if got := p.Wait(t, time.Minute); got != 0 {
				t.Fatalf("%s: rank %d: status %d: %s", name, r, got, p.Stderr.String())
			}
		}
		t.Logf("%d MiB a rank were too few", size>>20)
	}
	t.Fatal("no files are large enough for this machine")
	return nil, nil
}
