package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// members tells which processes are a lab's: those whose environment has its mark, which is passed on
// to children also where they go into a network namespace of their own, and those in a host.
type members struct {
	id    string
	hosts map[uint64]bool // inodes of the hosts' namespaces
	// owns is asked of a namespace that has the number of a host's; nil believes the number.
	owns func(netns string) bool
}

// processes returns the processes of the lab, this one excepted.
func (m *members) processes() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if _, err := startOf(pid); err == nil && m.has(dir) {
			found = append(found, pid)
		}
	}
	return found
}

// has tells whether the process with this folder under /proc is the lab's.
func (m *members) has(dir string) bool {
	env, _ := os.ReadFile(filepath.Join(dir, "environ"))
	if id, ok := variable(env, envID); ok {
		return id == m.id
	}
	// Threads, since one that runs Enter is in the host before its process is.
	namespaces, _ := filepath.Glob(filepath.Join(dir, "task/[0-9]*/ns/net"))
	for _, ns := range namespaces {
		if inode, err := inodeAt(ns); err == nil && m.hosts[inode] && (m.owns == nil || m.owns(ns)) {
			return true
		}
	}
	return false
}

// variable returns a variable of an environment as /proc shows it.
func variable(env []byte, name string) (string, bool) {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value), true
		}
	}
	return "", false
}

// startOf returns when a process began, in clock ticks since boot; an error if there is none,
// or only what its parent has not yet taken note of.
func startOf(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the program's name, may hold blanks and brackets.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const state, start = 0, 19
	if len(fields) <= start || fields[state][0] == 'Z' || fields[state][0] == 'X' {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(string(fields[start]), 10, 64)
}

// How long processes get to end after SIGTERM, and to vanish after SIGKILL.
const (
	termTime = 3 * time.Second
	killTime = 5 * time.Second
)

// endProcesses ends the processes that list returns, and returns those that would not go. Each
// gets one SIGTERM; SIGKILL comes, sooner if ctx is done, again and again for those that were just born.
func endProcesses(ctx context.Context, list func() []int) []int {
	var left []int
	asked := make(map[int]bool)
	begin := time.Now()
	for ; time.Since(begin) < termTime+killTime; time.Sleep(20 * time.Millisecond) {
		if left = list(); len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			switch {
			case time.Since(begin) >= termTime || ctx.Err() != nil:
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			case !asked[pid]:
				_ = unix.Kill(pid, unix.SIGTERM)
				asked[pid] = true
			}
		}
	}
	return left
}
