package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/agent/identity"
)

// maxSocketPath is what the kernel takes: sun_path has 108 bytes, the last one zero.
const maxSocketPath = 107

// listenSocket listens on the Unix socket at path, for this user only. A socket that
// a killed agent left behind is replaced; one that answers, or that is no socket, is not.
func listenSocket(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("local API: socket path %q has %d bytes, and the kernel takes %d: give a shorter one with --socket",
			path, len(path), maxSocketPath)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode must be right from the first moment: whoever connects before a chmod of
	// the path is in. On Linux bind gives the file the mode of the socket itself; a
	// umask would do as well, but belongs to the whole process.
	conf := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		controlErr := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(controlErr, err)
	}}
	l, err := conf.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("local API: %w", err)
	}
	return &checkedListener{UnixListener: l.(*net.UnixListener), log: log}, nil
}

// removeStale removes the socket of a dead agent at path, if there is one.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("local API: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		// Removing it would be removing somebody's file for a slip in --socket.
		return fmt.Errorf("local API: %s exists and is not a socket: give another path with --socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("an agent is already running on %s", path)
	case errors.Is(err, unix.ECONNREFUSED):
	case errors.Is(err, fs.ErrNotExist):
		return nil // its agent has just ended
	default: // a full backlog or another user's: somebody may be behind it
		return fmt.Errorf("local API: %s is in use or not ours: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("local API: old socket: %w", err)
	}
	return nil
}

// A checkedListener lets in the agent's own user and root, as the kernel tells.
type checkedListener struct {
	*net.UnixListener
	log *slog.Logger
}

func (l *checkedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil && (uid == 0 || uid == os.Getuid()) {
			return c, nil
		}
		l.log.Warn("local client refused: only the agent's user and root may connect", "uid", uid, "err", err)
		c.Close()
	}
}

// A gate counts the calls under way, so that their end can be waited for.
type gate struct {
	mu     sync.Mutex // guards closed, and makes it one step with entering
	closed bool
	calls  sync.WaitGroup
}

func (g *gate) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			http.Error(w, "the agent is stopping", http.StatusServiceUnavailable)
			return
		}
		g.calls.Add(1)
		g.mu.Unlock()
		defer g.calls.Done()
		h.ServeHTTP(w, r)
	})
}

// close turns further calls away and waits for those under way.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait()
}

func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, credErr); err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// lockDir makes sure that one agent at a time uses dir, for what use says. The lock
// ends when the file is closed, or with the process.
func lockDir(dir, use string) (*os.File, error) {
	f, err := identity.Lock(dir)
	if errors.Is(err, identity.ErrLocked) {
		return nil, fmt.Errorf("an agent is already running %s %s", use, dir)
	}
	return f, err
}

// socketBuffers returns the sizes that the kernel gave the UDP socket, in bytes, 0
// where unknown. Linux reports twice what it lets an application use.
func socketBuffers(c net.PacketConn) (receive, send uint32) {
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return 0, 0
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return 0, 0
	}
	read := func(option int) (n int) {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option) })
		return n
	}
	return uint32(read(unix.SO_RCVBUF)), uint32(read(unix.SO_SNDBUF))
}
