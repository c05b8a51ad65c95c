package agent

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A fakeListener knows only whether it was closed.
type fakeListener struct {
	net.Listener
	closed chan struct{}
	once   sync.Once
}

func newFakeListener() *fakeListener { return &fakeListener{closed: make(chan struct{})} }

func (l *fakeListener) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l *fakeListener) Close() error              { l.once.Do(func() { close(l.closed) }); return nil }

func TestSocketModeAndReuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	discard := slog.New(slog.DiscardHandler)
	l, err := listenSocket(path, discard)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("socket %v, %v: want mode 0600", info.Mode(), err)
	}
	if second, err := listenSocket(path, discard); err == nil {
		second.Close()
		t.Error("two listeners on one path")
	} else if !strings.Contains(err.Error(), "already running on "+path) {
		t.Errorf("second listener: %v", err)
	}
	// What kill -9 leaves behind: the file without anybody behind it.
	l.(*checkedListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("no stale socket to test with: %v", err)
	}
	l, err = listenSocket(path, discard)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		accepted <- err
	}()
	c, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-accepted; err != nil {
		t.Errorf("our own user was not let in: %v", err)
	}
	l.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("socket after Close: %v", err)
	}
}

// A slip in --socket must not cost anybody a file.
func TestSocketPathOfOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "thesis.tex")
	if err := os.WriteFile(file, []byte("years of work"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 120))
	for path, want := range map[string]string{file: "not a socket", link: "not a socket", empty: "not a socket", long: "107", filepath.Join(dir, "no", "such"): "no such"} {
		if l, err := listenSocket(path, slog.New(slog.DiscardHandler)); err == nil {
			l.Close()
			t.Errorf("%s: taken", path)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: error %q does not say %q and name the path", path, err, want)
		}
	}
	if b, err := os.ReadFile(link); err != nil || string(b) != "years of work" {
		t.Errorf("the file at the path holds %q, %v", b, err)
	}
	if _, err := os.Stat(empty); err != nil {
		t.Error(err)
	}
}

func TestPeerUID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := peerUID(s); err != nil || uid != os.Getuid() {
		t.Errorf("peer has uid %d, %v; we have %d", uid, err, os.Getuid())
	}
	s.Close()
	if uid, err := peerUID(s); err == nil {
		t.Errorf("a closed connection has a peer: uid %d", uid)
	}
}
