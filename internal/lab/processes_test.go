package lab

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// program starts a shell script with a lab's mark, and reaps it.
func program(t *testing.T, id, script string) *os.Process {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), envID+"="+id)
	ready, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A line says that it ignores what it is to ignore.
	if _, err := ready.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return cmd.Process
}

// What has the mark of a lab is ended, its children too, and nobody else.
func TestEndProcesses(t *testing.T) {
	const mine, other = "TESTPROCESSESMINE", "TESTPROCESSESOTHER"
	a := program(t, mine, "sleep 60 & echo up; wait")
	stays := program(t, other, "sleep 60 & echo up; wait")
	m := &members{id: mine}
	found := m.processes()
	if len(found) < 2 || !slices.Contains(found, a.Pid) || slices.Contains(found, stays.Pid) || slices.Contains(found, os.Getpid()) {
		t.Fatalf("found processes %v; want %d and its child, not %d", found, a.Pid, stays.Pid)
	}
	if left := endProcesses(t.Context(), m.processes); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if _, err := startOf(stays.Pid); err != nil {
		t.Errorf("a process of another lab was ended: %v", err)
	}
	endProcesses(t.Context(), (&members{id: other}).processes)
}

// Who ignores SIGTERM gets SIGKILL, at once where nobody waits any more.
func TestEndProcessesThatIgnoreIt(t *testing.T) {
	const mine = "TESTPROCESSESSTUBBORN"
	program(t, mine, "trap '' TERM; echo up; while :; do sleep 1; done")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	if left := endProcesses(ctx, (&members{id: mine}).processes); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if took := time.Since(begin); took >= termTime {
		t.Errorf("took %v", took)
	}
}

// A process without the mark is a lab's if a thread of it is in a host, and the host is the lab's.
func TestMembersByNamespace(t *testing.T) {
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inode, err := inodeOf(f)
	if err != nil {
		t.Fatal(err)
	}
	m := &members{id: "TESTNAMESPACE", hosts: map[uint64]bool{inode: true}}
	if !m.has("/proc/self") {
		t.Error("a process in a host was not found")
	}
	m.owns = func(string) bool { return false }
	if m.has("/proc/self") {
		t.Error("a namespace that has but the number of a host's was taken for it")
	}
	m.hosts, m.owns = map[uint64]bool{inode + 1: true}, nil
	if m.has("/proc/self") {
		t.Error("a process elsewhere was taken for one in a host")
	}
}

func TestVariable(t *testing.T) {
	env := []byte("A=1\x00AB=2\x00XA=3\x00E=\x00")
	for name, want := range map[string]string{"A": "1", "AB": "2", "E": ""} {
		if got, ok := variable(env, name); got != want || !ok {
			t.Errorf("%s: got %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"B", "X", ""} {
		if got, ok := variable(env, name); ok {
			t.Errorf("%q was found: %q", name, got)
		}
	}
}
