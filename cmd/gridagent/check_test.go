package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
)

// TestSlipsAreFoundFirst gives every command a value that the agent would refuse later, and
// checks that this is a usage error, on one short line, before anything is written. (The
// address of the seed answers nobody: to ask it would take longer than the test may.)
func TestSlipsAreFoundFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 300)
	tests := []struct {
		cmd  string
		args []string
		want string
	}{
		{"join", []string{"--probe-share", "7"}, "--probe-share 7: want more than 0 and at most 0.1"},
		{"join", []string{"--probe-share", "0"}, "--probe-share 0: want more than 0"},
		{"join", []string{"--probe-share", "NaN"}, "--probe-share NaN: want more than 0"},
		{"join", []string{"--probe-share", "x"}, `--probe-share "x": want a number`},
		{"join", []string{"--probe-interval", "1s"}, "--probe-interval 1s: want at least 5s"},
		{"join", []string{"--probe-interval", "0s"}, "--probe-interval 0s: want at least 5s"},
		{"join", []string{"--probe-interval", "soon"}, `--probe-interval "soon": want a time with its unit`},
		{"join", []string{"--map-wait", "-1s"}, "--map-wait -1s: want 0 or more"},
		{"join", []string{"--probe-cap", "10KiB"}, "--probe-cap 10KiB: want at least 1MiB"},
		{"join", []string{"--spool", file}, file + " is not a folder"},
		{"join", []string{"--spool", filepath.Join(file, "spool")}, "not a directory"},
		{"join", []string{"--spool", open}, "chmod go-w " + open},
		{"join", []string{"--socket", file}, "exists and is not a socket"},
		{"join", []string{"--socket", filepath.Join(dir, "no", "s")}, "no such file"},
		{"join", []string{"--socket", filepath.Join(dir, long)}, "and the kernel takes 107"},
		{"join", []string{"--bind", "nonsense"}, `bind address "nonsense": want IP:PORT`},
		{"join", []string{"--advertise", "0.0.0.0:7"}, `advertise address "0.0.0.0:7": nobody can reach it`},
		{"join", []string{"--advertise", "[fe80::1%eth0]:7"}, "without a zone"},
		{"join", []string{"--advertise", "239.1.1.1:7"}, "other hosts cannot reach it"},
		{"join", []string{"--name", "a b"}, `host name "a b"`},
		{"join", []string{"--site", "a/b"}, `site "a/b"`},
		{"init", []string{"--bind", "nonsense"}, `bind address "nonsense": want IP:PORT`},
		{"init", []string{"--advertise", "here"}, `advertise address "here": want IP:PORT`},
		{"init", []string{"--name", long}, "has 300 characters"},
		{"init", []string{"--cluster", "-"}, `cluster name "-"`},
		{"init", []string{"--ttl", "999999h"}, "--ttl 999999h0m0s: want 1s to 8784h0m0s"},
		{"init", []string{"--ttl", "1ms"}, "--ttl 1ms: want 1s"},
		{"init", []string{"--uses", "-1"}, "--uses -1: want a number of hosts"},
		{"token create", []string{"--ttl", "999999h"}, "--ttl 999999h0m0s: want 1s to 8784h0m0s"},
		{"token create", []string{"--uses", "-1"}, `--uses "-1": want a whole number of 0 or more`},
		{"token create", []string{"--uses", "5000000000"}, `--uses "5000000000": too large`},
		{"allgather", []string{"--job", ""}, "has 0 bytes: want a name of 1 to 256"},
		{"allgather", []string{"--job", long}, "has 300 bytes: want a name of 1 to 256"},
		{"allgather", []string{"--job", "a\nb"}, `--job "a\nb": want printable characters`},
		{"allgather", []string{"--job", "\x1b[31m"}, `--job "\x1b[31m": want printable characters`},
		{"allgather", []string{"--job", "a\xff"}, `--job "a\xff": want UTF-8`},
		{"allgather", []string{"--job", "j", "--ranks", "70000"}, "--ranks 70000: want 0 ≤ rank < ranks ≤ 65536"},
		{"allgather", []string{"--job", "j", "--ranks", "x"}, `--ranks "x": want a whole number`},
		{"pools", []string{"--wait", "-1s"}, "--wait -1s: want 0 or more"},
		{"map", []string{"--wait", "7"}, `--wait "7": want a time with its unit`},
		{"completion", []string{"foo"}, `unknown command "foo"`},
		{"help", []string{"plan", "foo"}, `no command "plan foo" to help with`},
	}
	for i, tt := range tests {
		home := filepath.Join(dir, fmt.Sprint("new", i))
		args := strings.Fields(tt.cmd)
		switch tt.cmd {
		case "join":
			args = append(args, "192.0.2.1:7946", "--token", "ga1_x", "--dir", home)
		case "allgather":
			args = append(args, "--rank", "0", "--ranks", "3", "--in", file, "--out", filepath.Join(dir, "out"), "--dir", home)
		case "init", "token create", "pools", "map":
			args = append(args, "--dir", home)
		}
		args = append(args, tt.args...)
		status, out, errs := gridagent(t, args...)
		if status != exitUsage || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("%q: status %d, %q, %q; want %d and %q", args, status, out, errs, exitUsage, tt.want)
		}
		if strings.Count(errs, "\n") != 1 || len(errs) > 350 || strings.Contains(errs, "strconv") || strings.ContainsRune(errs, '\x1b') {
			t.Errorf("%q: printed %q, want one short line without control characters", args, errs)
		}
		if _, err := os.Lstat(home); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %s was made (%v)", args, home, err)
		}
	}
}

// TestLimitsAreThoseOfTheAgent compares the limits that this package repeats with those of
// the packages that hold to them.
func TestLimitsAreThoseOfTheAgent(t *testing.T) {
	id, err := identity.Init(filepath.Join(t.TempDir(), "a"), identity.Options{Host: "a"}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := id.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	for ttl, good := range map[time.Duration]bool{minTTL - 1: false, minTTL: true, maxTTL: true, maxTTL + 1: false} {
		_, err := tokens.Create(ttl, 0, time.Now(), rand.Reader)
		if ours := checkTTL(ttl); (err == nil) != good || (ours == nil) != good {
			t.Errorf("a life of %v: package identity says %v, we say %v", ttl, err, ours)
		}
	}
}

// TestGoodFlagsPass checks that values at the edge of what is allowed are not refused.
func TestGoodFlagsPass(t *testing.T) {
	for _, job := range []string{"j", "Lauf Nr. 7/ä→☃", strings.Repeat("x", 256)} {
		if err := checkJob(job); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(checkRanks(0, 1), checkRanks(maxRanks-1, maxRanks)); err != nil {
		t.Error(err)
	}
	sticky := filepath.Join(t.TempDir(), "sticky")
	if err := errors.Join(os.Mkdir(sticky, 0o700), os.Chmod(sticky, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	for _, spool := range []string{"", sticky, filepath.Join(sticky, "a", "b"), "spool"} {
		r := &runFlags{probeInterval: 5 * time.Second, probeShare: 0.1, spool: spool}
		if err := r.check(); err != nil {
			t.Errorf("spool %q: %v", spool, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "new")
	if err := checkSocket(filepath.Join(dir, "agent.sock"), dir); err != nil {
		t.Error(err)
	}
	h := hostFlags{site: "Nether Lands"[:6], bind: "127.0.0.1:0", advertise: "[::1]:7946"}
	if err := h.check(); err != nil {
		t.Error(err)
	}
}
