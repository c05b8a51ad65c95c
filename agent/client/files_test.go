package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	p := &part{File: file, name: file.Name(), sync: (*os.File).Sync}
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
	p := &part{File: f, sync: (*os.File).Sync}
	defer p.remove()
	err = publish(p, strings.NewReader("result"), 6, "some/out", false)
	if want := "output some/out: " + unix.ENOSPC.Error(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOutputIsOnDiskFirst: what has the output's name at any moment is on the disk, the one before or the whole new one, and when the call
// returns the name is, too.
func TestOutputIsOnDiskFirst(t *testing.T) {
	full := errors.New("the disk has failed")
	for _, c := range []struct {
		name             string
		named, overwrite bool
		fail             string // what cannot be synced
	}{
		{"new", false, false, ""}, {"over another", false, true, ""},
		{"new, by way of a name", true, false, ""}, {"over another, by way of a name", true, true, ""},
		{"the file cannot be", false, true, "file"}, {"the folder cannot be", false, true, "folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			out := filepath.Join(dir, "out")
			if c.overwrite {
				write(t, out, "before")
			}
			content := func() string {
				b, err := os.ReadFile(out)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Error(err)
				}
				return string(b)
			}
			before := content()
			p, err := createPart(out)
			if err != nil {
				t.Fatal(err)
			}
			if c.named && p.name == "" {
				p.Close()
				file, err := os.Create(partName(out))
				if err != nil {
					t.Fatal(err)
				}
				p = &part{File: file, name: file.Name()}
			}
			var synced []string
			p.sync = func(f *os.File) error {
				info, err := f.Stat()
				if err != nil {
					t.Error(err)
					return err
				}
				what := "file"
				if info.IsDir() {
					what = "folder"
					if got := content(); got != "whole" {
						t.Errorf("the folder was synced with the output %q", got)
					}
					if n := entries(t, dir); n != 1 {
						t.Errorf("the folder was synced with %d files, want the output alone", n)
					}
				} else {
					if info.Size() != 5 {
						t.Errorf("the file was synced with %d bytes", info.Size())
					}
					if got := content(); got != before {
						t.Errorf("%q had the name before it was synced", got)
					}
				}
				synced = append(synced, what)
				if what == c.fail {
					return full
				}
				return f.Sync()
			}
			err = publish(p, strings.NewReader("whole"), 5, out, c.overwrite)
			p.remove()
			want := []string{"file", "folder"}
			if c.fail == "file" {
				want = want[:1]
				if got := content(); got != before {
					t.Errorf("output %q", got)
				}
			}
			if !slices.Equal(synced, want) {
				t.Errorf("synced %v, want %v", synced, want)
			}
			if c.fail == "" && err != nil || c.fail != "" && !errors.Is(err, full) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFolderThatCannotBeSynced: an output in a folder that its user may not read, or in a file system that syncs no folders, is an output.
func TestFolderThatCannotBeSynced(t *testing.T) {
	for _, cannot := range []error{unix.EINVAL, unix.ENOTSUP, unix.EACCES} {
		out := filepath.Join(t.TempDir(), "out")
		p, err := createPart(out)
		if err != nil {
			t.Fatal(err)
		}
		p.sync = func(f *os.File) error {
			if info, err := f.Stat(); err != nil || info.IsDir() {
				return &os.PathError{Op: "sync", Path: f.Name(), Err: cannot}
			}
			return nil
		}
		err = publish(p, strings.NewReader("whole"), 5, out, false)
		p.remove()
		if err != nil {
			t.Errorf("%v: %v", cannot, err)
		}
	}
}
