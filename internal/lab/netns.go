package lab

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A netns is a network namespace that lives as long as this file is open or a process is in it.
type netns struct {
	file  *os.File
	inode uint64
}

// newNetns makes an empty namespace.
func newNetns() (*netns, error) {
	var ns *netns
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		var err error
		ns, err = currentNetns()
		return err
	})
	return ns, err
}

// currentNetns opens the namespace of the calling thread.
func currentNetns() (*netns, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	inode, err := inodeOf(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &netns{file: f, inode: inode}, nil
}

func inodeOf(f *os.File) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return st.Ino, nil
}

// inodeAt returns the number of a namespace, given by its file under /proc.
func inodeAt(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return st.Ino, nil
}

// do runs f on a thread that is in ns. What f opens there stays there.
func (ns *netns) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread of its own, which ends with it: a thread that has changed
// its namespace must not come back to the others.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}
