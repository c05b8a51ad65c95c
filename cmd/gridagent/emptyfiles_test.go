package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmptyFiles: what a variable that is not set leaves of --in and --out is refused before anything is asked.
func TestEmptyFiles(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte("ab"), 0o600); err != nil {
		t.Fatal(err)
	}
	rank := []string{"--job", "j", "--rank", "0", "--ranks", "2", "--dir", dir}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"allgather", "--in", "", "--out", out}, "--in"},
		{[]string{"allgather", "--in", in, "--out", ""}, "--out"},
		{[]string{"alltoall", "--in", in, "--out="}, "--out"},
		{[]string{"alltoall", "--in=", "--out", out}, "--in"},
		{[]string{"broadcast", ""}, "FILE"},
	} {
		status, _, errs := gridagent(t, append(tc.args, rank...)...)
		if status != exitUsage || !strings.Contains(errs, tc.want+` "": want the name of a file`) {
			t.Errorf("%q: status %d, %s", tc.args, status, errs)
		}
	}
}
