package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckFiles tells what [Rank.AllgatherFile] and [Rank.AlltoallFile] would refuse of their two files, without
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

// A part takes the result until it is whole. It has no name until then, so that a client
// that is killed leaves nothing behind; where the file system cannot do that, a hidden one
// beside the output.
type part struct {
	*os.File
	name string // empty: none yet. Not File.Name, which is the folder of a file without a name
}

// createPart makes the part of out. Its mode is what the caller's umask leaves, as for any
// file that a program writes.
func createPart(out string) (*part, error) {
	f, err := os.OpenFile(filepath.Dir(out), os.O_WRONLY|unix.O_TMPFILE, 0o666)
	if err == nil {
		p := &part{File: f}
		if _, err = os.Stat(p.descriptor()); err == nil {
			return p, nil
		}
		f.Close() // without /proc it could not be named later
	}
	name := partName(out)
	if f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return &part{File: f, name: name}, nil
}

func partName(out string) string {
	return filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+"."+rand.Text()[:8]+".part")
}

// descriptor is the name under which the kernel shows an open file.
func (p *part) descriptor() string { return fmt.Sprintf("/proc/self/fd/%d", p.Fd()) }

// enter gives p a name, if it has none.
func (p *part) enter(name string) error {
	if p.name != "" {
		return nil
	}
	// To link the descriptor itself (AT_EMPTY_PATH) needs a privilege, by way of /proc it
	// does not: open(2) on O_TMPFILE.
	err := unix.Linkat(unix.AT_FDCWD, p.descriptor(), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.PathError{Op: "link", Path: name, Err: err}
	}
	p.name = name
	return nil
}

// remove closes p and takes its name away. After [publish] the file lives on as the output.
func (p *part) remove() {
	p.Close()
	if p.name != "" {
		os.Remove(p.name)
	}
}

// publish fills p with the size bytes of result and gives it the name out; unless
// overwrite is set, not if there is a file of that name by now.
func publish(p *part, result *os.File, size int64, out string, overwrite bool) error {
	n, err := io.Copy(p, result)
	if err == nil && n != size {
		err = fmt.Errorf("the result has %d bytes, not %d", n, size)
	}
	if err == nil {
		err = p.enter(partName(out)) // only a rename replaces a file, and it needs a name to begin with
	}
	if err == nil {
		err = p.Close() // some file systems report a full disk only here
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", out, err)
	}
	if !overwrite {
		// A link, unlike a rename, replaces nothing; the caller removes the other name.
		err = os.Link(p.name, out)
		overwrite = err != nil && !errors.Is(err, fs.ErrExist) // a file system without links
	}
	if overwrite {
		err = os.Rename(p.name, out)
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", out, err)
	}
	return nil
}
