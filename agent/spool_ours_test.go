package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSpoolLeavesOthers: of what lies in the folder only payloads of an agent's own naming go at its start and end.
func TestSpoolLeavesOthers(t *testing.T) {
	dir := t.TempDir()
	others := []string{"other.blk", "result-2024.blk", "gridagent-notes.blk", "data.txt"}
	for _, name := range append([]string{"gridagent-input-7.blk"}, others...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gridagent-input-7.blk")); !os.IsNotExist(err) {
		t.Errorf("a payload that a killed agent left: %v", err)
	}
	f, err := s.create("input", 10, false)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	s.close()
	if _, err := os.Stat(f.Name()); !os.IsNotExist(err) {
		t.Errorf("%s after the end: %v", f.Name(), err)
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
}

// TestSpooledInputIsOurs: a file that the client has put in the place of the one that Spool made, or that has grown, is an error, and the
// client's file stays. The agent sent zeros for the one, and a part of the other.
func TestSpooledInputIsOurs(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	for _, c := range []struct {
		name, want string
		change     func(path string) error
		stays      bool
	}{
		{"as it was made", "", func(string) error { return nil }, false},
		{"written", "", func(path string) error { return os.WriteFile(path, []byte("0123456789"), 0o600) }, false},
		{"another", "another one than Spool made", func(path string) error {
			mine := path + ".mine"
			if err := os.WriteFile(mine, []byte("0123456789"), 0o600); err != nil {
				return err
			}
			return os.Rename(mine, path)
		}, true},
		{"grown", "has 11 bytes", func(path string) error { return os.WriteFile(path, []byte("0123456789a"), 0o600) }, false},
		{"gone", "no such file", os.Remove, false},
	} {
		f, err := s.create("input", 10, false)
		if err != nil {
			t.Fatal(err)
		}
		ss := new(session)
		in := &spooledInput{f: f, size: 10}
		if !ss.putInput(in) {
			t.Fatal("no session")
		}
		if err := c.change(f.Name()); err != nil {
			t.Fatal(err)
		}
		_, err = ss.takeInput(f.Name())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		in.remove()
		if _, err := os.Stat(f.Name()); (err == nil) != c.stays {
			t.Errorf("%s: after the end %v", c.name, err)
		}
		os.Remove(f.Name())
	}
}
