package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processesIn returns the processes whose network namespace is one of inodes, this one excepted.
func processesIn(inodes map[uint64]bool) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, "ns/net"), &st) == nil && inodes[st.Ino] {
			found = append(found, pid)
		}
	}
	return found
}

// How long processes get to end after SIGTERM, and to vanish after SIGKILL.
const (
	termTime = 3 * time.Second
	killTime = 5 * time.Second
)

// endProcesses ends all processes in the namespaces and returns those that would not go.
// each, if not nil, is asked whether one is to be ended.
func endProcesses(inodes map[uint64]bool, each func(pid int) bool) []int {
	list := func() []int {
		var mine []int
		for _, pid := range processesIn(inodes) {
			if _, err := startOf(pid); err == nil && (each == nil || each(pid)) {
				mine = append(mine, pid)
			}
		}
		return mine
	}
	var left []int
	for _, step := range []struct {
		signal unix.Signal
		wait   time.Duration
	}{{unix.SIGTERM, termTime}, {unix.SIGKILL, killTime}} {
		for _, pid := range list() {
			_ = unix.Kill(pid, step.signal) // it may have ended
		}
		for end := time.Now().Add(step.wait); ; time.Sleep(20 * time.Millisecond) {
			if left = list(); len(left) == 0 {
				return nil
			}
			if time.Now().After(end) {
				break
			}
		}
	}
	return left
}
