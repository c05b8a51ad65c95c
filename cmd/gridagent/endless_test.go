package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSettingsFileTooLarge: a settings file has a bound, also where it is no file.
func TestSettingsFileTooLarge(t *testing.T) {
	dir := t.TempDir()
	large, fifo := filepath.Join(dir, "large"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(large, []byte(strings.Repeat("# long\n", 200_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errs := gridagent(t, "status", "--config", large)
	if status != exitUsage || !strings.Contains(errs, "settings file: "+large+": more than 1048576 bytes") {
		t.Errorf("status %d, %s", status, errs)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { // what a shell hands over as <(command)
		if err := os.WriteFile(fifo, []byte("dir: "+dir+"\n"), 0); err != nil {
			t.Error(err)
		}
	}()
	if status, _, errs := gridagent(t, "status", "--config", fifo); status != exitUnreachable {
		t.Errorf("from a pipe: status %d, %s", status, errs)
	}
}

// TestReadFile: no file that a person names is read without end.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := readFile(path, 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
	for _, tc := range []struct{ path, want string }{
		{path, path + ": more than 4 bytes"},
		{"/dev/zero", "/dev/zero: more than 4 bytes"},
		{path + "x", "no such file"},
		{filepath.Dir(path), "is a directory"},
	} {
		if data, err := readFile(tc.path, 4); err == nil || !strings.Contains(err.Error(), tc.want) || data != nil {
			t.Errorf("%s: %q, %v", tc.path, data, err)
		}
	}
}
