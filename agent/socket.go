package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// listenSocket listens on the Unix socket at path, for this user only. A socket that
// a killed agent left behind is replaced; one that answers is not.
func listenSocket(path string, log *slog.Logger) (net.Listener, error) {
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("an agent is already running on %s", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("old socket: %w", err)
	}
	// The mode must be right from the first moment, so it is set by the umask: whoever
	// connects before a chmod is in.
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("local API: %w", err)
	}
	return &checkedListener{UnixListener: l, log: log}, nil
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

// lockDir makes sure that one agent at a time runs from dir. The lock ends with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/agent.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("an agent is already running from %s", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
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
