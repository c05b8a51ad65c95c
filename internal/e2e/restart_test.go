package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// TestRestarts ends the agents of three hosts in all ways, and starts them again with no
// more than gridagent join --dir DIR.
func TestRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen agents; not with -short")
	}
	whole := t // of the agents
	a, token := newCluster(t, "a")
	waitMembers(t, 1, a)
	b, c := a.join(t, "b", token), a.join(t, "c", token)
	all := []*node{a, b, c}
	waitMembers(t, 3, all...)

	for round, s := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGTERM, syscall.SIGTERM} {
		t.Run(fmt.Sprintf("%v to all at once, round %d", s, round), func(t *testing.T) {
			for _, n := range all {
				n.Signal(s)
			}
			for _, n := range all {
				if got := n.Wait(t, 15*time.Second); got != 0 {
					t.Errorf("status of %s: %d: %s", n.name, got, n.Stderr.String())
				}
			}
			for _, n := range all {
				n.restart(whole)
			}
			waitMembers(t, 3, all...)
		})
	}
	t.Run("stopped is not left", func(t *testing.T) {
		b.Signal(syscall.SIGTERM)
		if got := b.Wait(t, 15*time.Second); got != 0 {
			t.Errorf("status of b: %d", got)
		}
		e2etest.Eventually(t, 5*time.Second, func() error { // without waiting for the failure detector
			if out, _ := run(t, 0, "members", "--dir", a.dir); !lists(out, "b") || !strings.Contains(out, "stopped") {
				return fmt.Errorf("a sees\n%s", out)
			}
			return nil
		})
		b.restart(whole)
		waitMembers(t, 3, all...)
	})
	t.Run("leave, and join at once", func(t *testing.T) {
		for range 2 {
			run(t, 0, "leave", "--dir", c.dir)
			c.restart(whole)
			waitMembers(t, 3, all...)
		}
	})
	t.Run("all leave at once", func(t *testing.T) {
		var leaves []*e2etest.Process
		for _, n := range all {
			leaves = append(leaves, start(t, "leave", "--dir", n.dir))
		}
		for i, n := range all {
			if got := leaves[i].Wait(t, 30*time.Second); got != 0 {
				t.Errorf("leave of %s: status %d: %s", n.name, got, leaves[i].Stderr.String())
			}
			n.restart(whole)
		}
		waitMembers(t, 3, all...)
	})
	t.Run("a copied folder", func(t *testing.T) { copiedFolder(t, b, all) })
	t.Run("another cluster", func(t *testing.T) {
		z := &node{name: "z", dir: filepath.Join(t.TempDir(), "z"), addr: freeAddr(t)}
		run(t, 0, "init", "--dir", z.dir, "--name", "z", "--bind", z.addr)
		peers := fmt.Sprintf(`{"version":1,"peers":[{"name":"a","addr":%q,"seen":%q}]}`, a.addr, time.Now().UTC().Format(time.RFC3339))
		if err := os.WriteFile(filepath.Join(z.dir, "peers.json"), []byte(peers), 0o600); err != nil {
			t.Fatal(err)
		}
		z.restart(t)
		e2etest.Eventually(t, 10*time.Second, func() error {
			if s := z.Stderr.String(); !strings.Contains(s, "the host at "+a.addr+" shows a certificate that this folder's cluster does not know") {
				return fmt.Errorf("z says\n%s", s)
			}
			return nil
		})
		waitMembers(t, 1, z)
	})
}

// copiedFolder starts an agent from a copy of the folder of n at a port of its own: one that
// knows its new address, and one that takes the original's for its own.
func copiedFolder(t *testing.T, n *node, all []*node) {
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(n.dir, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, advertise := range []string{"", n.addr} {
		p := start(t, "join", "--dir", dir, "--bind", "127.0.0.1:0", "--advertise", advertise)
		begun := time.Now()
		if got := p.Wait(t, 10*time.Second); got != e2etest.StatusFailure || !strings.Contains(p.Stderr.String(), fmt.Sprintf("the name %q belongs to a live host at %s", n.name, n.addr)) {
			t.Errorf("advertised %q: status %d: %s", advertise, got, p.Stderr.String())
		}
		t.Logf("advertised %q: the copy ended after %v", advertise, time.Since(begun))
	}
	waitMembers(t, 3, all...)
}
