package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Variables that a program in a host finds.
const (
	envLab  = "GRIDAGENT_LAB"
	envHost = "GRIDAGENT_LAB_HOST"
	envID   = "GRIDAGENT_LAB_ID" // by which Down knows what is the lab's; the supervisor has it too
	// envFolder is where labs are kept, set in the user namespace of an unprivileged lab.
	envFolder = "GRIDAGENT_LAB_FOLDER"
)

// A CommandError says why a command could not be run in a host.
type CommandError struct {
	Command string
	Err     error
}

func (e *CommandError) Error() string { return fmt.Sprintf("run %s: %v", e.Command, e.Err) }
func (e *CommandError) Unwrap() error { return e.Err }

// Status is the exit status by which shells say the same.
func (e *CommandError) Status() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

// Exec replaces this process by command, run in a host of a lab: with the host's network, its
// name as host name, the names of all hosts in /etc/hosts and /sys showing its interface.
// It returns only an error, a [CommandError] if it is the command's fault. again are the arguments with
// which this program comes here once more, by nsenter, where the lab is in a user namespace, which
// a process of several threads cannot enter.
func Exec(name, host string, command, again []string) error {
	s, err := Read(name)
	if err != nil {
		return err
	}
	if !s.Alive() {
		return s.crashed()
	}
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if mine, err := inodeAt("/proc/self/ns/user"); s.User == 0 || (err == nil && mine == s.User) {
		return enter(s, h, command)
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("a lab of an unprivileged user is entered by nsenter: %w; install util-linux", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(envFolder, base()); err != nil {
		return err
	}
	args := append([]string{"nsenter", "--target", strconv.Itoa(s.PID), "--user", "--preserve-credentials", "--", self}, again...)
	return unix.Exec(nsenter, args, os.Environ())
}

// enter is Exec for a process that is in the user namespace of the lab.
func enter(s *State, h *StateHost, command []string) error {
	runtime.LockOSThread() // the namespaces are this thread's, and unix.Exec makes it the process
	path := fmt.Sprintf("/proc/%d/fd/%d", s.PID, h.FD)
	ns, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lab %s has ended", s.Name)
	} else if err != nil {
		return fmt.Errorf("namespace of host %s: %w", h.Name, explain(err))
	}
	if inode, err := inodeOf(ns); err != nil || inode != h.Inode {
		return fmt.Errorf("%s is not the namespace of host %s: the lab has ended", path, h.Name)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter host %s: %w", h.Name, explain(err))
	}
	ns.Close()
	// From here on a Down sees this thread. One that looked for processes before has ended the supervisor first.
	if !s.Alive() {
		return fmt.Errorf("lab %s has ended", s.Name)
	}
	if err := unix.Unshare(unix.CLONE_NEWUTS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("host %s: name and mounts of its own: %w", h.Name, explain(err))
	}
	if err := unix.Sethostname([]byte(h.Name)); err != nil {
		return fmt.Errorf("host name %q: %w", h.Name, err)
	}
	if err := mounts(filepath.Join(folder(s.Name), hostsFile)); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	// Setenv, since in a program that was started in another host there are such variables already.
	for name, value := range map[string]string{envLab: s.Name, envHost: h.Name, envID: s.ID} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	program, err := exec.LookPath(command[0])
	if err == nil {
		err = unix.Exec(program, command, os.Environ())
	}
	var cause *exec.Error // it repeats the name
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return &CommandError{command[0], err}
}

// mounts shows the thread the lab's names and interfaces, and nobody else.
func mounts(hosts string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("names of the hosts in /etc/hosts: %w", err)
	}
	// /sys shows the interfaces of who mounted it. Some programs look there; where it may
	// not be mounted they see the machine's, which is no reason to refuse the others.
	_ = unix.Unmount("/sys", unix.MNT_DETACH)
	_ = unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	return nil
}
