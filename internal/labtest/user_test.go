package labtest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// TestUnprivilegedUser makes labs as a user without rights: of a switch tree, which needs a user
// namespace, and of a grid, which needs /dev/net/tun too.
func TestUnprivilegedUser(t *testing.T) {
	mustBePossible(t)
	as := nobody
	if os.Getuid() != 0 {
		as = nil
	}
	tree, grid := public(t, "tree.json"), public(t, "three.yaml")

	l := newLab(t, "tree", as)
	p := l.command(t, "up", tree)
	if got := p.Wait(t, patience); got != 0 {
		e2etest.OneLine(t, p.Stderr.String(), "run as root, or allow unprivileged user namespaces")
		t.Skipf("no unprivileged user namespaces: %s", p.Stderr.String())
	}
	l.find(t)
	if p := l.command(t, "check"); p.Wait(t, time.Minute) != 0 {
		t.Errorf("lab check: %s\n%s", p.Stderr.String(), p.Stdout.String())
	} else {
		t.Logf("lab check:\n%s", p.Stdout.String())
	}
	if got := strings.TrimSpace(succeed(t, l.exec(t, "n3", "sh", "-c", "hostname; grep -w n2 /etc/hosts; id -u; exit 0"))); !strings.HasPrefix(got, "n3\n10.1.0.2 n2\n") {
		t.Errorf("in host n3: %q", got)
	}
	if p := l.exec(t, "n0", "sh", "-c", "exit 7"); p.Wait(t, patience) != 7 {
		t.Errorf("%v: not status 7: %s", p, p.Stderr.String())
	}
	sleepers := l.sleep(t, "n0", "n3")
	end := now(t)
	l.must(t, "down")
	l.gone(t, end, sleepers)

	w := newLab(t, "wan", as)
	p = w.command(t, "up", grid)
	if got, open := p.Wait(t, patience), tunIsOpen(); open && got == 0 {
		w.find(t)
		succeed(t, w.exec(t, "a0", "true"))
	} else if open || got != e2etest.StatusFailure {
		t.Errorf("%v: status %d, with /dev/net/tun open to all: %v; %s", p, got, open, p.Stderr.String())
	} else {
		e2etest.OneLine(t, p.Stderr.String(), "wide-area links need a TAP device", "let this user open /dev/net/tun, or be root")
		t.Logf("without /dev/net/tun: %s", p.Stderr.String())
		if p := w.command(t, "status"); p.Wait(t, patience) != e2etest.StatusFailure {
			t.Errorf("a lab that was refused is there:\n%s", p.Stdout.String())
		}
	}
}

// public copies a file of testdata to where every user can read it.
func public(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(binary), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// tunIsOpen tells whether every user may open /dev/net/tun.
func tunIsOpen() bool {
	const access = syscall.S_IROTH | syscall.S_IWOTH
	info, err := os.Stat("/dev/net/tun")
	return err == nil && info.Mode().Perm()&access == access
}
