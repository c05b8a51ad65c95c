package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Down ends a lab and all processes in its hosts, also one whose supervisor crashed or hangs,
// and leaves nothing behind. The error is ErrNoLab where there is none.
func Down(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	dir := folder(name)
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%w: %s", ErrNoLab, name)
	}
	s, err := Read(name)
	switch {
	case errors.Is(err, ErrNoLab): // it crashed before it was up: nothing can have been run in it
		return os.RemoveAll(dir)
	case err != nil:
		return fmt.Errorf("%w; remove the folder %s when nothing of the lab runs any more", err, dir)
	}
	if s.Alive() {
		s.end(ctx)
	}
	// What runs in the hosts has outlived a supervisor that crashed.
	left := endProcesses(s.inodes(), func(pid int) bool { return s.owns(pid) })
	if len(left) > 0 {
		return fmt.Errorf("lab %s: processes %s do not end", name, strings.Trim(fmt.Sprint(left), "[]"))
	}
	return os.RemoveAll(dir)
}

// endTime is how long a supervisor may take to end.
const endTime = termTime + killTime + 2*time.Second

// end asks the supervisor to end, and does not take no for an answer.
func (s *State) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if c, err := Dial(s.Name); err == nil {
		_ = c.Down(ctx) // its connection may break as it ends
		c.Close()
	}
	for s.Alive() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if s.Alive() {
		_ = unix.Kill(s.PID, unix.SIGKILL)
	}
	for end := time.Now().Add(killTime); s.Alive() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *State) inodes() map[uint64]bool {
	set := make(map[uint64]bool)
	for _, h := range s.Hosts {
		set[h.Inode] = true
	}
	return set
}

// owns tells whether a process is in a host of this lab: a namespace that came later may have
// got the number of one that is gone, but not the alias of its interface.
func (s *State) owns(pid int) bool {
	if s.User {
		// From outside its user namespace nobody can look at the interface.
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+envLab+"="+s.Name+"\x00"))
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return false
	}
	ns := &netns{file: f}
	defer f.Close()
	mine := false
	_ = ns.do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName(eth0)
		mine = err == nil && link.Attrs().Alias == s.ID
		return err
	})
	return mine
}
