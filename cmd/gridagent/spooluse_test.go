package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpoolInUse: a spool that the agent could not take is seen before the token is spent.
func TestSpoolInUse(t *testing.T) {
	spool, dir := t.TempDir(), filepath.Join(t.TempDir(), "k")
	lock, err := os.Create(filepath.Join(spool, "agent.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ spool, want string }{
		{spool, "an agent is already running with it"},
		{dir, "it is the folder of --dir"},
	} {
		status, _, errs := gridagent(t, "join", "192.0.2.1:7946", "--token", "ga1_x", "--dir", dir, "--name", "a", "--bind", "127.0.0.1:0", "--spool", tc.spool)
		if status != exitUsage || !strings.Contains(errs, "--spool "+tc.spool+": "+tc.want) {
			t.Errorf("status %d, %s: want %q", status, errs, tc.want)
		}
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := checkSpool(spool, dir); err != nil {
		t.Error(err)
	}
}
