package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettingsOfTwoDocuments: what stands behind a second --- is not passed over.
func TestSettingsOfTwoDocuments(t *testing.T) {
	known := map[string]string{"dir": "", "site": ""}
	for text, want := range map[string]string{
		"dir: a\n---\nsite: b\n":          "f:3: a second document",
		"dir: a\n---\n# none\n---\n- x\n": "f:5: a second document",
		"dir: a\n---\nsite: [\n":          "f: line",
		"---\ndir: a\n":                   "",
		"dir: a\n---\n":                   "",
		"dir: a\n...\n# the end\n":        "",
		"# nothing\n---\n# here either\n": "",
	} {
		_, err := checkSettings("f", []byte(text), known)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestNoFolder: a null in a settings file leaves a setting as it is, and no folder is none to look in.
func TestNoFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := filepath.Join(home, "settings.yaml")
	if err := os.WriteFile(file, []byte("dir: ~\nforming-timeout:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errs := gridagent(t, "members", "--config", file)
	if status != exitUnreachable || !strings.Contains(errs, filepath.Join(home, ".gridagent", "agent.sock")) {
		t.Errorf("dir: ~: status %d, %s", status, errs)
	}
	for _, args := range [][]string{{"members"}, {"join"}, {"init"}, {"status"}} {
		status, _, errs := gridagent(t, append(args, "--dir", "")...)
		if status != exitUsage || !strings.Contains(errs, `--dir "": want a folder`) {
			t.Errorf("%s: status %d, %s", args[0], status, errs)
		}
	}
}
