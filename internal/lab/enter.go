package lab

import (
	"fmt"
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
)

// Exec replaces this process by command, run in a host of a lab: with the host's network, its
// name as host name, the names of all hosts in /etc/hosts and /sys showing its interface.
// It returns only an error. again are the arguments with which this program comes here once more,
// for [Enter], where the lab is in a user namespace, which a process of several threads cannot enter.
func Exec(name, host string, command, again []string) error {
	s, err := Read(name)
	if err != nil {
		return err
	}
	if !s.Alive() {
		return fmt.Errorf("lab %s has crashed; clear it away with gridagent lab down --name %s", name, name)
	}
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if !s.User || os.Getenv(envLab) == name {
		return Enter(s, h, command)
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("a lab of an unprivileged user is entered by nsenter: %w; install util-linux", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"nsenter", "--target", strconv.Itoa(s.PID), "--user", "--preserve-credentials", "--", self}, again...)
	return unix.Exec(nsenter, args, append(os.Environ(), envLab+"="+name))
}

// Enter is Exec for a process that is in the user namespace of the lab.
func Enter(s *State, h *StateHost, command []string) error {
	runtime.LockOSThread() // the namespaces are this thread's, and Exec makes it the process
	path := fmt.Sprintf("/proc/%d/fd/%d", s.PID, h.FD)
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("namespace of host %s: %w", h.Name, explain(err))
	}
	if inode, err := inodeOf(ns); err != nil || inode != h.Inode {
		return fmt.Errorf("%s is not the namespace of host %s: the lab has ended", path, h.Name)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter host %s: %w", h.Name, explain(err))
	}
	ns.Close()
	if err := unix.Unshare(unix.CLONE_NEWUTS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("host %s: name and mounts of its own: %w", h.Name, explain(err))
	}
	if err := unix.Sethostname([]byte(h.Name)); err != nil {
		return fmt.Errorf("host name %q: %w", h.Name, err)
	}
	if err := mounts(filepath.Join(folder(s.Name), hostsFile)); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	env := append(os.Environ(), envLab+"="+s.Name, envHost+"="+h.Name)
	if err := unix.Exec(program, command, env); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
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
