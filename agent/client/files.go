package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckFiles tells what [Rank.AllgatherFile] would refuse of its two files, without
// opening either: in must be a regular file, out must not exist (unless it may be
// overwritten: then it must be a regular file), its folder must. Who calls it before
// Join spares the other ranks a group that cannot do its work.
func CheckFiles(in, out string, overwrite bool) error {
	info, err := os.Stat(in) // not by opening it: a pipe without a writer would block
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("input %s: not a regular file", in)
	}
	info, err = os.Lstat(out)
	switch {
	case err == nil && overwrite && !info.Mode().IsRegular():
		return fmt.Errorf("output %s: not a regular file", out)
	case err == nil && overwrite:
	case err == nil:
		return fmt.Errorf("output %s: %w", out, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("output: %w", err)
	}
	if info, err = os.Stat(filepath.Dir(out)); err != nil {
		return fmt.Errorf("output %s: its folder: %w", out, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("output %s: %s is not a folder", out, filepath.Dir(out))
	}
	return nil
}

// createPart makes the file beside out that takes the result until it is whole. Its
// mode is what the caller's umask leaves, as for any file that a program writes.
func createPart(out string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+"."+rand.Text()[:8]+".part")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return f, nil
}

// publish fills part with the size bytes of result and gives it the name out; unless
// overwrite is set, not if there is a file of that name by now.
func publish(part, result *os.File, size int64, out string, overwrite bool) error {
	n, err := io.Copy(part, result)
	if err == nil && n != size {
		err = fmt.Errorf("the result has %d bytes, not %d", n, size)
	}
	if err == nil {
		err = part.Close() // some file systems report a full disk only here
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", out, err)
	}
	if !overwrite {
		// A link, unlike a rename, replaces nothing; the caller removes the other name.
		err = os.Link(part.Name(), out)
		overwrite = err != nil && !errors.Is(err, fs.ErrExist) // a file system without links
	}
	if overwrite {
		err = os.Rename(part.Name(), out)
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", out, err)
	}
	return nil
}
