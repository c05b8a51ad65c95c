package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// CheckFiles tells what the calls that take files would refuse of theirs, without opening either:
// in must be a regular file, out must not exist (unless it may be overwritten: then it must be a
// regular file), its folder must. One that is empty is not looked at. Who calls it before Join
// spares the other ranks a group that cannot do its work.
func CheckFiles(in, out string, overwrite bool) error {
	if in != "" {
		if err := checkInput(in); err != nil {
			return err
		}
	}
	if out == "" {
		return nil
	}
	return checkOutput(out, overwrite)
}

func checkInput(in string) error {
	info, err := os.Stat(in) // not by opening it: a pipe without a writer would block
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("input %s: not a regular file", in)
	}
	return nil
}

func checkOutput(out string, overwrite bool) error {
	info, err := os.Lstat(out)
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

// withFiles runs do over the content of the file in and writes the result to the file out.
// An error names the path that is at fault.
func (r *Rank) withFiles(ctx context.Context, in, out string, opts *Options, do request) (*apiv1.Report, error) {
	if err := CheckFiles(in, out, opts.Overwrite); err != nil {
		return nil, err
	}
	// Made before anything is moved: that the place cannot be written is better known now.
	dst, err := createPart(out)
	if err != nil {
		return nil, err
	}
	defer dst.remove()
	return r.fromFile(ctx, in, &task{opts: *opts, do: do, take: r.intoFile(dst, out, opts.Overwrite)})
}

// fromFile runs t over the content of the file in.
func (r *Rank) fromFile(ctx context.Context, in string, t *task) (*apiv1.Report, error) {
	if err := checkInput(in); err != nil {
		return nil, err
	}
	src, err := os.Open(in)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	t.size = info.Size()
	t.fill = func(f *os.File) error {
		n, err := io.Copy(f, io.LimitReader(src, t.size))
		if err == nil && n < t.size {
			err = fmt.Errorf("input %s shrank from %d to %d bytes", in, t.size, n)
		}
		return err
	}
	return report(r.do(ctx, t))
}

// toFile runs t and writes the result to the file out.
func (r *Rank) toFile(ctx context.Context, out string, t *task) (*apiv1.Report, error) {
	if err := checkOutput(out, t.opts.Overwrite); err != nil {
		return nil, err
	}
	dst, err := createPart(out)
	if err != nil {
		return nil, err
	}
	defer dst.remove()
	t.take = r.intoFile(dst, out, t.opts.Overwrite)
	return report(r.do(ctx, t))
}

// report is what a caller with files gets of a result.
func report(res *Result, err error) (*apiv1.Report, error) {
	if err != nil {
		return nil, err
	}
	return res.Report, nil
}

// intoFile publishes a response as the file out.
func (r *Rank) intoFile(dst *part, out string, overwrite bool) func(*response) (*Result, error) {
	return func(resp *response) (*Result, error) {
		var src io.Reader = bytes.NewReader(resp.data)
		if resp.spool != "" {
			f, err := os.Open(resp.spool)
			if err != nil {
				return nil, r.unopened("result", err)
			}
			defer f.Close()
			src = f
		}
		if err := publish(dst, src, resp.total(), out, overwrite); err != nil {
			return nil, err
		}
		return &Result{Report: resp.report}, nil
	}
}

// A part takes the result until it is whole. It has no name until then, so that a client
// that is killed leaves nothing behind; where the file system cannot do that, a hidden one
// beside the output.
type part struct {
	*os.File
	name string               // empty: none yet. Not File.Name, which is the folder of a file without a name
	sync func(*os.File) error // has the disk keep a file or a folder
}

// createPart makes the part of out. Its mode is what the caller's umask leaves, as for any
// file that a program writes.
func createPart(out string) (*part, error) {
	f, err := os.OpenFile(filepath.Dir(out), os.O_WRONLY|unix.O_TMPFILE, 0o666)
	if err == nil {
		p := &part{File: f, sync: (*os.File).Sync}
		if _, err = os.Stat(p.descriptor()); err == nil {
			return p, nil
		}
		f.Close() // without /proc it could not be named later
	}
	name := partName(out)
	if f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return &part{File: f, name: name, sync: (*os.File).Sync}, nil
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
		p.name = ""
	}
}

// keepNames has the disk keep what names the folder of p's output has. Not every file system can do that for a folder, nor may every
// user read the one where it writes: then the name is kept when the system writes it.
func (p *part) keepNames(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		defer d.Close()
		err = p.sync(d)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// publish fills p with the size bytes of result and gives it the name out; unless
// overwrite is set, not if there is a file of that name by now. After a crash at any moment out is what
// it was before, or whole: the disk has p before p has the name, and the name before publish returns.
func publish(p *part, result io.Reader, size int64, out string, overwrite bool) error {
	n, err := io.Copy(p, result)
	if err == nil && n != size {
		err = fmt.Errorf("the result has %d bytes, not %d", n, size)
	}
	if err == nil {
		err = p.sync(p.File)
	}
	if err == nil {
		err = p.enter(partName(out)) // only a rename replaces a file, and it needs a name to begin with
	}
	if err == nil {
		err = p.Close() // some file systems report a full disk only here
	}
	if err != nil {
		var at *fs.PathError // of a file without a name it has its folder's
		if errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("output %s: %w", out, err)
	}
	if !overwrite {
		// A link, unlike a rename, replaces nothing.
		err = os.Link(p.name, out)
		overwrite = err != nil && !errors.Is(err, fs.ErrExist) // a file system without links
	}
	if overwrite {
		err = os.Rename(p.name, out)
	}
	if err == nil {
		p.remove() // the other name of a link
		err = p.keepNames(filepath.Dir(out))
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", out, err)
	}
	return nil
}
