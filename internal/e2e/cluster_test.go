package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// promptly is what a lost host may cost the others.
const promptly = 10 * time.Second

// TestCluster is a day in the life of three hosts. The parts build on each other.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes, and waits for timeouts of seconds; not with -short")
	}
	whole := t // of the agents; commands belong to their parts
	a, token := newCluster(t, "a")
	waitMembers(t, 1, a)
	b, c := a.join(t, "b", token), a.join(t, "c", token)
	waitMembers(t, 3, a, b, c)
	six := []*node{a, a, b, b, c, c}

	t.Run("status", func(t *testing.T) {
		out, _ := run(t, 0, "status", "--dir", b.dir, "-o", "json")
		var s map[string]any
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if s["host"] != "b" || s["site"] != "Y" || s["address"] != b.addr || s["members_alive"] != 3.0 {
			t.Errorf("status of b: %v", s)
		}
		info, err := os.Stat(filepath.Join(b.dir, "agent.sock"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket: %v, %v, want mode 0600", info, err)
		}
	})
	t.Run("allgather", func(t *testing.T) {
		const seed = 11
		in := e2etest.Random(t, seed, 0, 1, 70_001, 1<<20, 333, 5_000_011)
		for _, algorithm := range []string{"auto", "ring"} {
			out := e2etest.Files(t, 6)
			for r, p := range ranks(t, "job-"+algorithm, six, in, out, "--algorithm", algorithm, "-o", "json") {
				if got := p.Wait(t, 60*time.Second); got != 0 {
					t.Fatalf("seed %d, %s, rank %d: status %d: %s", seed, algorithm, r, got, p.Stderr.String())
				}
				var report map[string]any
				if err := json.Unmarshal([]byte(p.Stdout.String()), &report); err != nil {
					t.Fatalf("%v\n%s", err, p.Stdout.String())
				}
				if report["ranks"] != 6.0 || report["hosts"] != 3.0 || report["seconds"].(float64) <= 0 {
					t.Errorf("%s, rank %d: report %v", algorithm, r, report)
				}
				e2etest.SameBytes(t, out[r], in)
			}
		}
	})
	t.Run("alltoall", func(t *testing.T) { alltoalls(t, six) })
	t.Run("a rank does not come", func(t *testing.T) { missingRanks(t, a, b, c) })
	t.Run("a rank fails", func(t *testing.T) { failingRank(t, a, b) })
	t.Run("map and pools", func(t *testing.T) {
		e2etest.Eventually(t, 60*time.Second, func() error {
			p := start(t, "pools", "--dir", c.dir, "-o", "json")
			if p.Wait(t, 20*time.Second) != 0 {
				return fmt.Errorf("pools: %s", p.Stderr.String())
			}
			if !json.Valid([]byte(p.Stdout.String())) || !strings.Contains(p.Stdout.String(), `"b"`) {
				t.Fatalf("pools: %s", p.Stdout.String())
			}
			return nil
		})
		grid := filepath.Join(t.TempDir(), "grid.json")
		out, _ := run(t, 0, "map", "--dir", a.dir, "--predict", "-o", "json")
		if err := os.WriteFile(grid, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ = run(t, 0, "plan", "allgather", "--grid", grid, "--algorithm", "min3", "--size", "64KiB", "-o", "json")
		if !strings.Contains(out, `"min3"`) {
			t.Errorf("a plan from the live map: %s", out)
		}
		givenPlans(t, grid, []*node{b, c, a})
	})
	t.Run("tune", func(t *testing.T) { tuning(t, a) })
	t.Run("strangers", func(t *testing.T) { strangers(t, a, b) })
	t.Run("files", func(t *testing.T) { badFiles(t, a) })
	t.Run("a client is killed", func(t *testing.T) {
		ps, _ := underWay(t, "killed", six)
		ps[2].Signal(syscall.SIGKILL)
		begun := time.Now()
		for r, p := range ps {
			if r == 2 {
				continue
			}
			if got := p.Wait(t, promptly); got != e2etest.StatusGroup {
				t.Errorf("rank %d: status %d, want %d: %s", r, got, e2etest.StatusGroup, p.Stderr.String())
			}
			e2etest.OneLine(t, p.Stderr.String(), "rank 2 on host b is lost", "client ended or was killed")
		}
		t.Logf("all commands ended %v after the kill", time.Since(begun))
	})
	t.Run("Ctrl-C of a client", func(t *testing.T) {
		ps, out := underWay(t, "interrupted", six)
		ps[5].Signal(os.Interrupt)
		if got := ps[5].Wait(t, promptly); got != e2etest.StatusInterrupted {
			t.Errorf("status %d, want %d: %s", got, e2etest.StatusInterrupted, ps[5].Stderr.String())
		}
		for r, p := range ps[:5] {
			if got := p.Wait(t, promptly); got != e2etest.StatusGroup {
				t.Errorf("rank %d: status %d, want %d: %s", r, got, e2etest.StatusGroup, p.Stderr.String())
			}
			e2etest.OneLine(t, p.Stderr.String(), "rank 5 on host c")
		}
		e2etest.NoOutput(t, out)
	})
	t.Run("an agent is killed", func(t *testing.T) {
		ps, out := underWay(t, "lost", six)
		c.Signal(syscall.SIGKILL)
		begun := time.Now()
		for r, p := range ps {
			got := p.Wait(t, promptly-time.Since(begun))
			if r >= 4 {
				if got != e2etest.StatusUnreachable {
					t.Errorf("rank %d, of the killed agent: status %d, want %d: %s", r, got, e2etest.StatusUnreachable, p.Stderr.String())
				}
				e2etest.OneLine(t, p.Stderr.String(), "the agent on this host is gone")
				continue
			}
			if got != e2etest.StatusGroup {
				t.Errorf("rank %d: status %d, want %d: %s", r, got, e2etest.StatusGroup, p.Stderr.String())
			}
			e2etest.OneLine(t, p.Stderr.String(), "rank 4 on host c is lost")
		}
		t.Logf("all commands ended %v after the kill", time.Since(begun))
		e2etest.NoOutput(t, out)
	})
	t.Run("it comes back by itself", func(t *testing.T) {
		c.restart(whole)
		waitMembers(t, 3, a, b, c)
		if left, err := filepath.Glob(filepath.Join(c.dir, "spool", "*.blk")); err != nil || len(left) > 0 {
			t.Errorf("its spool still holds %v, %v", left, err)
		}
		in, out := e2etest.Sparse(t, 6, 1000), e2etest.Files(t, 6)
		for r, p := range ranks(t, "again", six, in, out) {
			if got := p.Wait(t, 30*time.Second); got != 0 {
				t.Errorf("rank %d: status %d: %s", r, got, p.Stderr.String())
			}
			e2etest.SameBytes(t, out[r], in)
		}
	})
	t.Run("Ctrl-C of an agent", func(t *testing.T) {
		ps, out := underWay(t, "stopped", six)
		b.Signal(os.Interrupt)
		for r, p := range ps {
			if got := p.Wait(t, promptly); got != e2etest.StatusGroup {
				t.Errorf("rank %d: status %d, want %d: %s", r, got, e2etest.StatusGroup, p.Stderr.String())
			}
			e2etest.OneLine(t, p.Stderr.String(), "host b is shutting down: the agent is stopping")
		}
		e2etest.NoOutput(t, out)
		if got := b.Wait(t, 15*time.Second); got != 0 {
			t.Errorf("the agent's status is %d: %s", got, b.Stderr.String())
		}
		if _, err := os.Lstat(filepath.Join(b.dir, "agent.sock")); !os.IsNotExist(err) {
			t.Errorf("its socket: %v", err)
		}
		refuse(t, e2etest.StatusUnreachable, []string{"no agent answers", b.dir}, "status", "--dir", b.dir)
		b.restart(whole)
		waitMembers(t, 3, a, b, c)
	})
	t.Run("leave", func(t *testing.T) {
		run(t, 0, "leave", "--dir", c.dir)
		if got := c.Wait(t, 15*time.Second); got != 0 {
			t.Errorf("status of the agent that left: %d: %s", got, c.Stderr.String())
		}
		e2etest.Eventually(t, 15*time.Second, func() error {
			if out, _ := run(t, 0, "members", "--dir", a.dir); lists(out, "c") {
				return fmt.Errorf("a sees\n%s", out)
			}
			return nil
		})
	})
	t.Run("who left stays away", func(t *testing.T) {
		for _, n := range []*node{a, b} {
			n.Signal(os.Interrupt)
		}
		for _, n := range []*node{a, b} {
			if got := n.Wait(t, 15*time.Second); got != 0 {
				t.Errorf("status of %s: %d", n.name, got)
			}
			n.restart(whole)
		}
		waitMembers(t, 2, a, b)
		for _, n := range []*node{a, b} {
			if out, _ := run(t, 0, "members", "--dir", n.dir); lists(out, "c") {
				t.Errorf("%s sees\n%s", n.name, out)
			}
		}
	})
	t.Run("a name is taken", func(t *testing.T) {
		// Another machine has taken the name of c, and c comes back.
		token, _ := run(t, 0, "token", "create", "--dir", a.dir)
		other := a.join(whole, "c", strings.TrimSpace(token))
		waitMembers(t, 3, a, b, other)
		c.restart(whole)
		if got := c.Wait(t, 20*time.Second); got != e2etest.StatusFailure {
			t.Errorf("status %d, want %d: %s", got, e2etest.StatusFailure, c.Stderr.String())
		}
		if s := c.Stderr.String(); !strings.Contains(s, `gridagent: the name "c" belongs to a live host at `+other.addr) || !strings.Contains(s, "--name") {
			t.Errorf("it says\n%s", s)
		}
		waitMembers(t, 3, a, b, other)
	})
}

// lists reports whether members has a row of the host.
func lists(members, host string) bool {
	for line := range strings.Lines(members) {
		if strings.HasPrefix(line, host+" ") {
			return true
		}
	}
	return false
}

// missingRanks waits for ranks that never come, or are refused before they ask to join: the
// others end with one error that names them, by either limit.
func missingRanks(t *testing.T, a, b, c *node) {
	in := e2etest.Sparse(t, 4, 1000)
	for _, limit := range []string{"--forming-timeout", "--timeout"} {
		job, out := "absent"+limit, e2etest.Files(t, 4)
		if err := os.WriteFile(out[1], []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		command := func(rank int, n *node) []string {
			return []string{"allgather", "--dir", n.dir, "--job", job, "--rank", fmt.Sprint(rank), "--ranks", "4", "--in", in[rank], "--out", out[rank], limit, "2s"}
		}
		ps := []*e2etest.Process{start(t, command(0, a)...), start(t, command(2, c)...)}
		refuse(t, e2etest.StatusFailure, []string{out[1], "--force"}, command(1, b)...)
		for _, p := range ps {
			if got := p.Wait(t, promptly); got != e2etest.StatusGroup {
				t.Errorf("%s: status %d, want %d: %s", limit, got, e2etest.StatusGroup, p.Stderr.String())
			}
			e2etest.OneLine(t, p.Stderr.String(), fmt.Sprintf("ranks 1 and 3 have not joined job %q (2 of 4 missing) in the 2s that rank", job), "ranks 0 and 2 have")
		}
		if ps[0].Stderr.String() != ps[1].Stderr.String() {
			t.Errorf("%s: rank 0 reads %q, rank 2 %q", limit, ps[0].Stderr.String(), ps[1].Stderr.String())
		}
	}
}

// failingRank loses the input of rank 0 while it waits for rank 1, which is told.
func failingRank(t *testing.T, a, b *node) {
	in, out := e2etest.Sparse(t, 2, 1000), e2etest.Files(t, 2)
	command := func(rank int, n *node) *e2etest.Process {
		return start(t, "allgather", "--dir", n.dir, "--job", "fails", "--rank", fmt.Sprint(rank), "--ranks", "2", "--in", in[rank], "--out", out[rank])
	}
	zero := command(0, a)
	inGroup(t, a, "fails", 0)
	if err := os.Remove(in[0]); err != nil {
		t.Fatal(err)
	}
	one := command(1, b)
	if got := zero.Wait(t, promptly); got != e2etest.StatusFailure {
		t.Errorf("rank 0: status %d, want %d: %s", got, e2etest.StatusFailure, zero.Stderr.String())
	}
	e2etest.OneLine(t, zero.Stderr.String(), in[0])
	if got := one.Wait(t, promptly); got != e2etest.StatusGroup {
		t.Errorf("rank 1: status %d, want %d: %s", got, e2etest.StatusGroup, one.Stderr.String())
	}
	e2etest.OneLine(t, one.Stderr.String(), "rank 0 on host a failed: ", in[0])
}

// inGroup waits until a client at n asks to join as rank of job: a second one is refused.
func inGroup(t *testing.T, n *node, job string, rank int) {
	t.Helper()
	api := n.api(t)
	e2etest.Eventually(t, 20*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := api.Join(ctx, job, rank, 2, client.JoinOptions{Limit: 100 * time.Millisecond})
		if r != nil {
			r.Close()
		}
		if ge := (*client.GroupError)(nil); errors.As(err, &ge) && ge.Kind == "mismatch" {
			return nil
		}
		return fmt.Errorf("a second client got %v", err)
	})
}

// strangers tries to get into the cluster of a and b.
func strangers(t *testing.T, a, b *node) {
	dir := filepath.Join(t.TempDir(), "d")
	try := func(token string, want ...string) {
		t.Helper()
		refuse(t, e2etest.StatusFailure, want, "join", b.addr, "--token", token, "--dir", dir, "--name", "d", "--bind", "127.0.0.1:0")
	}
	try("ga1_nonsense", "token")
	short, _ := run(t, 0, "token", "create", "--dir", a.dir, "--ttl", "1s")
	foreign := filepath.Join(t.TempDir(), "z")
	other, _ := run(t, 0, "init", "--dir", foreign, "--name", "z", "--bind", freeAddr(t))
	try(strings.TrimSpace(other), "wrong cluster authority")
	out, _ := run(t, 0, "token", "create", "--dir", a.dir, "-o", "json")
	var made struct {
		Token string         `json:"token"`
		Info  map[string]any `json:"info"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	run(t, 0, "token", "revoke", fmt.Sprint(made.Info["id"]), "--dir", a.dir)
	try(made.Token, "revoked")
	// A token of this cluster with another secret: one character in its middle differs.
	i := len(made.Token) / 2
	flip := "A"
	if made.Token[i] == 'A' {
		flip = "B"
	}
	try(made.Token[:i]+flip+made.Token[i+1:], "token")
	e2etest.Eventually(t, 5*time.Second, func() error {
		if p := start(t, "token", "list", "--dir", a.dir); p.Wait(t, 10*time.Second) != 0 || !strings.Contains(p.Stdout.String(), "expired") {
			return fmt.Errorf("token list: %s", p.Stdout.String())
		}
		return nil
	})
	try(strings.TrimSpace(short), "expired")
	refuse(t, e2etest.StatusFailure, []string{"run this on host a"}, "token", "create", "--dir", b.dir)
	if _, err := os.Stat(filepath.Join(dir, "cluster.json")); !os.IsNotExist(err) {
		t.Errorf("a folder that was refused holds a cluster: %v", err)
	}

	// A whole second cluster that believes to remember a: neither takes the other in.
	peers := fmt.Sprintf(`{"version":1,"peers":[{"name":"a","addr":%q,"seen":%q}]}`, a.addr, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(foreign, "peers.json"), []byte(peers), 0o600); err != nil {
		t.Fatal(err)
	}
	z := start(t, "join", "--dir", foreign, "--log-level", "debug")
	e2etest.Eventually(t, 15*time.Second, func() error {
		if !strings.Contains(z.Stderr.String(), "certificate of another cluster") {
			return fmt.Errorf("z says\n%s", z.Stderr.String())
		}
		return nil
	})
	// Its gossip at a's port: what it would send looks like this without the key.
	conn, err := net.Dial("udp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 20 {
		if _, err := conn.Write(append([]byte{1, 1}, make([]byte, 100)...)); err != nil {
			t.Fatal(err)
		}
	}
	e2etest.Eventually(t, 5*time.Second, func() error {
		if !strings.Contains(a.Stderr.String(), "gossip refused") {
			return fmt.Errorf("a says\n%s", a.Stderr.String())
		}
		return nil
	})
	if n := strings.Count(a.Stderr.String(), "gossip refused"); n != 1 || !strings.Contains(a.Stderr.String(), conn.LocalAddr().String()) {
		t.Errorf("%d lines of refused gossip, want 1 that names %v:\n%s", n, conn.LocalAddr(), a.Stderr.String())
	}
	out, _ = run(t, 0, "members", "--dir", a.dir)
	if strings.Contains(out, "z ") {
		t.Errorf("a took the other cluster's host in:\n%s", out)
	}
	z.Signal(os.Interrupt)
	if got := z.Wait(t, 15*time.Second); got != 0 {
		t.Errorf("status of z: %d", got)
	}
}

// badFiles gives allgather files that it cannot read or write.
func badFiles(t *testing.T, a *node) {
	dir := t.TempDir()
	good := filepath.Join(dir, "in")
	taken := filepath.Join(dir, "taken")
	for _, name := range []string{good, taken} {
		if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	for _, tt := range []struct{ name, in, out, want string }{
		{"input missing", filepath.Join(dir, "no"), out, filepath.Join(dir, "no")},
		{"input is a folder", dir, out, dir},
		{"input is a pipe", pipe, out, pipe},
		{"output exists", good, taken, taken},
		{"output is a device", good, os.DevNull, os.DevNull},
		{"output folder missing", good, filepath.Join(dir, "no", "out"), filepath.Join(dir, "no")},
		{"output folder cannot be written", good, "/proc/out", "/proc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refuse(t, e2etest.StatusFailure, []string{tt.want}, "allgather", "--dir", a.dir, "--job", "files", "--rank", "0", "--ranks", "1", "--in", tt.in, "--out", tt.out)
		})
	}
	if b, err := os.ReadFile(taken); err != nil || string(b) != "mine" {
		t.Errorf("the file that was there holds %q, %v", b, err)
	}
	run(t, 0, "allgather", "--dir", a.dir, "--job", "files", "--rank", "0", "--ranks", "1", "--in", good, "--out", out)
	e2etest.SameBytes(t, out, []string{good})
	if parts, err := filepath.Glob(filepath.Join(dir, ".*.part")); err != nil || len(parts) > 0 {
		t.Errorf("left behind: %v, %v", parts, err)
	}
}

func TestCommandLines(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"nonsense"},
		{"status", "--nonsense"},
		{"status", "-o", "xml"},
		{"members", "--wait", "x"},
		{"members", "--wait", "-1"},
		{"allgather", "--dir", dir},
		{"allgather", "--dir", dir, "--job", "j", "--rank", "2", "--ranks", "2", "--in", "x", "--out", "y"},
		{"join", "127.0.0.1:1", "127.0.0.1:2"},
		{"join", "127.0.0.1:7946", "--dir", dir},
		{"join", "127.0.0.1:port", "--token", "x", "--dir", dir},
		{"token", "revoke"},
		{"init", "--dir", filepath.Join(dir, "x"), "--name", "a b"},
		{"init", "--dir", filepath.Join(dir, "y"), "--ttl", "-1s"},
	} {
		p := start(t, args...)
		if got := p.Wait(t, 20*time.Second); got != e2etest.StatusUsage && got != e2etest.StatusFailure {
			t.Errorf("gridagent %s: status %d", strings.Join(args, " "), got)
		} else if got == e2etest.StatusFailure {
			t.Logf("gridagent %s: status %d rather than %d: %s", strings.Join(args, " "), got, e2etest.StatusUsage, p.Stderr.String())
		}
		e2etest.OneLine(t, p.Stderr.String())
	}
	refuse(t, e2etest.StatusUnreachable, []string{"no agent answers", dir}, "members", "--dir", dir)
	refuse(t, e2etest.StatusFailure, []string{"no cluster", dir}, "join", "--dir", dir)
}
