package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Down ends a lab and all processes in its hosts, also one whose supervisor crashed, hangs or has
// not finished, and leaves nothing behind. When ctx is done it kills at once. The error is ErrNoLab
// where there is none.
func Down(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := checkBase(); err != nil {
		return err
	}
	if _, err := os.Stat(folder(name)); err != nil {
		return fmt.Errorf("%w: %s", ErrNoLab, name)
	}
	// What cannot be read is from a crash in the middle of writing: the other file has the mark.
	m := &members{hosts: make(map[uint64]bool)}
	if req, err := readRequest(name); err == nil {
		m.id = req.ID
	}
	if s, err := Read(name); err == nil {
		m.id = s.ID
		for _, h := range s.Hosts {
			m.hosts[h.Inode] = true
		}
		m.owns = s.marked
		if s.Alive() {
			s.end(ctx)
		}
	}
	// What runs in the hosts has outlived a supervisor that crashed; and one that is
	// still making the lab has the mark itself.
	if m.id != "" {
		if left := endProcesses(ctx, m.processes); len(left) > 0 {
			return fmt.Errorf("lab %s: processes %s do not end", name, strings.Trim(fmt.Sprint(left), "[]"))
		}
	}
	return remove(name, m.id)
}

// endTime is how long a supervisor may take to end.
const endTime = termTime + killTime + 2*time.Second

// end tells the supervisor to end, and does not take no for an answer.
func (s *State) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if s.Alive() {
			_ = unix.Kill(s.PID, signal) // it may have ended
		}
		for s.Alive() && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for end := time.Now().Add(killTime); s.Alive() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// marked tells whether a namespace, given by its file, is this lab's: one that came later may have got
// the number of one that is gone, but not the alias of its loopback.
func (s *State) marked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	ns := &netns{file: f}
	defer f.Close()
	mine := false
	err = ns.do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName("lo")
		mine = err == nil && link.Attrs().Alias == s.ID
		return err
	})
	if errors.Is(err, unix.EPERM) && s.User != 0 {
		// From outside nobody looks into the namespaces of an unprivileged lab. That both numbers
		// came again, together, is left to chance.
		user, err := inodeAt(filepath.Join(filepath.Dir(path), "user"))
		return err == nil && user == s.User
	}
	return err == nil && mine
}
