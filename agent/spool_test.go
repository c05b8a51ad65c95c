package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/agent/group"
)

func openTestSpool(t *testing.T, dir string) *spool {
	t.Helper()
	s, err := openSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.lock.Close() })
	return s
}

// pathOf is the file of b.
func pathOf(t *testing.T, b group.Buffer) string {
	t.Helper()
	path, err := b.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSpoolIsEmptiedAtStartAndEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "spool")
	s := openTestSpool(t, dir)
	f, err := s.create("input", 10, false)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	s.lock.Close() // as if killed
	mine := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openTestSpool(t, dir)
	if _, err := os.Stat(f.Name()); !os.IsNotExist(err) {
		t.Errorf("%s of a killed agent is still there: %v", f.Name(), err)
	}
	var results []group.Buffer
	for _, size := range []int64{10, maxHeld + 1} {
		b, err := s.alloc(group.ID{}, 0, size)
		if err != nil {
			t.Fatal(err)
		}
		pathOf(t, b)
		results = append(results, b)
	}
	s.close()
	for _, b := range results {
		if _, err := os.Stat(pathOf(t, b)); !os.IsNotExist(err) {
			t.Errorf("%s is still there after the end: %v", pathOf(t, b), err)
		}
		b.Bytes()[9] = 1 // what is mapped outlives its name
		b.Release()
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("a file that is none of the spool's: %v", err)
	}
}

// Two agents that empty one folder under each other's hands lose their clients' data.
func TestSpoolBelongsToOneAgent(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	f, err := s.create("input", 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if second, err := openSpool(dir); err == nil {
		second.close()
		t.Error("two agents share a spool")
	} else if !strings.Contains(err.Error(), dir) {
		t.Errorf("error %q does not name %s", err, dir)
	}
	if _, err := os.Stat(f.Name()); err != nil {
		t.Errorf("the second agent removed the first one's file: %v", err)
	}
}

func TestSpoolThatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	for mode, ok := range map[fs.FileMode]bool{0o700: true, 0o755: true, 0o777 | fs.ModeSticky: true, 0o777: false, 0o770: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		s, err := openSpool(dir)
		if (err == nil) != ok {
			t.Errorf("mode %v: error %v, want accepted %v", mode, err, ok)
		}
		if err == nil {
			s.close()
		}
	}
}

// TestSpoolFiles: a result is a file by the time that it is asked for, and small ones are none before.
func TestSpoolFiles(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	for _, size := range []int64{0, 1, 4096, maxHeld, maxHeld + 1, 1<<20 + 3} {
		b, err := s.alloc(group.ID{}, 0, size)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if size > 0 {
			b.Bytes()[size-1] = 0xAB
		}
		files, err := filepath.Glob(filepath.Join(s.dir, "*.blk"))
		if err != nil || len(files) != 0 != (size > maxHeld) {
			t.Errorf("%d bytes: files %v before one is asked for, %v", size, files, err)
		}
		path := pathOf(t, b)
		if again := pathOf(t, b); again != path {
			t.Errorf("%d bytes: %s, and then %s", size, path, again)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() != size || int64(len(b.Bytes())) != size || info.Mode().Perm() != 0o400 {
			t.Errorf("%d bytes: file %v, memory %d, %v", size, info, len(b.Bytes()), err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b.Bytes()) {
			t.Errorf("%d bytes: the file does not show what is in memory: %v", size, err)
		}
		b.Release()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%d bytes: file after Release: %v", size, err)
		}
	}
}

// writeZeros stands in where the file system cannot reserve space.
// TestScratch: what is sent is in memory, unless it is large; only then is there a file.
func TestScratch(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	for _, size := range []int64{0, 1, maxHeld, maxHeld + 1, maxScratch, maxScratch + 1} {
		b, err := s.scratch(size)
		if err != nil {
			t.Fatal(err)
		}
		data := b.Bytes()
		if int64(len(data)) != size || bytes.ContainsFunc(data, func(r rune) bool { return r != 0 }) {
			t.Fatalf("%d bytes of %d, or not zeros", len(data), size)
		}
		if size > 0 {
			data[0], data[size-1] = 1, 1
		}
		files, err := filepath.Glob(filepath.Join(s.dir, "*.blk"))
		if err != nil || len(files) > 0 != (size > maxScratch) {
			t.Errorf("%d bytes: files %v, %v", size, files, err)
		}
		b.Release()
	}
	if files, _ := filepath.Glob(filepath.Join(s.dir, "*.blk")); len(files) > 0 {
		t.Errorf("%v stay", files)
	}
}

func TestWriteZeros(t *testing.T) {
	for _, size := range []int64{1, 1 << 20, 2<<20 + 5} {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeZeros(f, size); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if b, err := os.ReadFile(f.Name()); err != nil || int64(len(b)) != size || len(bytes.Trim(b, "\x00")) != 0 {
			t.Errorf("%d zeros: %d bytes, %v", size, len(b), err)
		}
	}
}

// A client that cuts its input short gets an error; mapped, it would kill the agent.
func TestInputThatShrinks(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	f, err := s.create("input", 100, false)
	if err != nil {
		t.Fatal(err)
	}
	in := &spooledInput{f: f, size: 100}
	if err := in.CopyTo(make([]byte, 100)); err != nil {
		t.Errorf("whole: %v", err)
	}
	if err := os.Truncate(f.Name(), 60); err != nil {
		t.Fatal(err)
	}
	if err := in.CopyTo(make([]byte, 100)); err == nil || !strings.Contains(err.Error(), "60 of 100 bytes") || !strings.Contains(err.Error(), f.Name()) {
		t.Errorf("cut short: %v", err)
	}
	in.remove()
	if _, err := os.Stat(f.Name()); !os.IsNotExist(err) {
		t.Errorf("after remove: %v", err)
	}
}

// tinyDisk mounts a file system of the given number of bytes, or skips the test.
func tinyDisk(t *testing.T, bytes string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+bytes); err != nil {
		t.Skipf("a full disk needs a file system of our own, and mounting one is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func TestSpoolOnFullDisk(t *testing.T) {
	s := openTestSpool(t, tinyDisk(t, "1m"))
	for _, size := range []int64{2 << 20, 1 << 46} {
		_, err := s.alloc(group.ID{}, 0, size)
		if err == nil || !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), s.dir) {
			t.Errorf("%d bytes on 1 MiB: %v", size, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*.blk")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	full, err := s.alloc(group.ID{}, 0, 1000<<10)
	if err != nil {
		t.Fatalf("nearly all of it: %v", err)
	}
	small, err := s.alloc(group.ID{}, 0, maxHeld)
	if err != nil {
		t.Fatal(err)
	}
	if path, err := small.Path(); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("%d bytes with no room: %s, %v", maxHeld, path, err)
	}
	small.Release()
	full.Release()
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*.blk")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b, err := s.alloc(group.ID{}, 0, 512<<10)
	if err != nil {
		t.Fatalf("what fits: %v", err)
	}
	b.Release()
}

// BenchmarkSpool makes results, writes a byte to each of their pages, as an exchange does to all, and removes them.
func BenchmarkSpool(b *testing.B) {
	for _, size := range []int64{maxHeld, 128 << 10, 1 << 20, 8 << 20, maxFilled, maxFilled + 1} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s, err := openSpool(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer s.close()
			b.SetBytes(size)
			for b.Loop() {
				buf, err := s.alloc(group.ID{}, 0, size)
				if err != nil {
					b.Fatal(err)
				}
				for data := buf.Bytes(); len(data) > 0; data = data[min(len(data), os.Getpagesize()):] {
					data[0] = 1
				}
				buf.Release()
			}
		})
	}
}
