package client

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// entries returns how many files there are in dir.
func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	return len(all)
}

// While the operation runs there is nothing beside the output that a client which is
// killed could leave, wherever the file system can do without.
func TestNoPartWhileRunning(t *testing.T) {
	dir := t.TempDir()
	p, err := createPart(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	p.remove()
	if p.name != "" {
		t.Skipf("the file system of %s has no files without a name", dir)
	}
	f, c, _ := newFake(t)
	r := join(t, c)
	in, out := write(t, filepath.Join(dir, "in"), "x"), filepath.Join(dir, "out")
	for _, overwrite := range []bool{false, true} {
		before, during := entries(t, dir), -1
		f.allgather = func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
			during = entries(t, dir)
			return f.prefixed(ctx, in)
		}
		if _, err := r.AllgatherFile(t.Context(), in, out, Options{Overwrite: overwrite}); err != nil {
			t.Fatal(err)
		}
		if during != before {
			t.Errorf("overwrite %v: %d files before, %d while it ran", overwrite, before, during)
		}
		if n := entries(t, dir); n != 2 {
			t.Errorf("overwrite %v: %d files at the end, want in and out", overwrite, n)
		}
	}
}

// A part that had to be made with a name ends as one without does.
func TestNamedPart(t *testing.T) {
	dir := t.TempDir()
	result, err := os.Open(write(t, filepath.Join(t.TempDir(), "result"), "whole"))
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	out := filepath.Join(dir, "out")
	file, err := os.Create(partName(out))
	if err != nil {
		t.Fatal(err)
	}
	p := &part{File: file, name: file.Name()}
	err = publish(p, result, 5, out, false)
	p.remove()
	if err != nil {
		t.Fatal(err)
	}
	if n := entries(t, dir); n != 1 {
		t.Errorf("%d files at the end, want the output alone", n)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "whole" {
		t.Errorf("output %q, %v", b, err)
	}
}

// TestPublishToFullDisk: the error of a full disk names the output, and not what stands in for it until it is whole.
func TestPublishToFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	p := &part{File: f}
	defer p.remove()
	err = publish(p, strings.NewReader("result"), 6, "some/out", false)
	if want := "output some/out: " + unix.ENOSPC.Error(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
