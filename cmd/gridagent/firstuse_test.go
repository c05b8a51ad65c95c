package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
)

// TestCommandsToCopy: folders whose names a shell would cut are quoted in commands.
func TestCommandsToCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my dir")
	status, _, errs := gridagent(t, "init", "--dir", dir, "--name", "a", "--bind", "127.0.0.1:0")
	if status != exitOK || !strings.Contains(errs, "gridagent join --dir '"+dir+"'\n") || !strings.Contains(errs, "gridagent status --dir '"+dir+"'") {
		t.Errorf("status %d: %s", status, errs)
	}
	none := filepath.Join(t.TempDir(), "it's")
	_, _, errs = gridagent(t, "join", "--dir", none)
	if quoted := "--dir '" + strings.ReplaceAll(none, "'", `'\''`) + "'"; strings.Count(errs, quoted) != 2 {
		t.Errorf("want %s in %s", quoted, errs)
	}
}

// TestJoinByAnotherName: the name stands in the certificate, so another is not taken without a word.
func TestJoinByAnotherName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "k")
	if _, err := identity.Init(dir, identity.Options{Cluster: "grid", Host: "a", Bind: "127.0.0.1:0"}, time.Now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	status, _, errs := gridagent(t, "join", "--dir", dir, "--name", "other")
	if status != exitUsage || !strings.Contains(errs, "--name other: this host is a") {
		t.Errorf("status %d, %s", status, errs)
	}
}

// TestJoinByItsNameInCapitals: names have none, so it is the name that stands in the certificate.
func TestJoinByItsNameInCapitals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "k")
	if _, err := identity.Init(dir, identity.Options{Cluster: "grid", Host: "NodeA", Bind: "127.0.0.1:0"}, time.Now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(t.TempDir(), "others.json") // ends the agent behind what is tested
	if err := os.WriteFile(others, []byte(`{"switches":["s0"],"hosts":{"b":"s0"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errs := gridagent(t, "join", "--dir", dir, "--name", "NodeA", "--switches", others)
	if status != exitFailure || !strings.Contains(errs, "lacks this host, nodea") {
		t.Errorf("status %d, %s", status, errs)
	}
}
