package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// The files of a cluster directory.
const (
	FileSettings  = "cluster.json"
	FileAuthority = "ca.crt"
	FileCAKey     = "ca.key"
	FileHostCert  = "host.crt"
	FileHostKey   = "host.key"
	FileGossip    = "gossip.key"
	FileTokens    = "tokens.json"
	FilePeers     = "peers.json"
	FileLock      = "agent.lock" // of whoever is at work there: see [Lock]
)

const (
	modeDir    fs.FileMode = 0o700
	modeSecret fs.FileMode = 0o600
	modePublic fs.FileMode = 0o644

	// maxFile bounds what is read of any file in the directory.
	maxFile = 4 << 20
)

// ErrNoCluster means that a directory holds no cluster.
var ErrNoCluster = errors.New("no cluster")

// ErrExists means that a directory already holds a cluster.
var ErrExists = errors.New("already holds a cluster")

// A PermissionError means that others than the owner can read or change a secret.
type PermissionError struct {
	Path string
	Mode fs.FileMode // what it has
	Want fs.FileMode // what it may have at most
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("%s has mode %04o, so other users can read it: run chmod %04o %s", e.Path, e.Mode, e.Want, e.Path)
}

// An OwnerError means that a directory belongs to another user than the one that is to use it: what is written there would be
// of no use to its owner's agent, which cannot read it.
type OwnerError struct {
	Path       string
	Owner, Own int // user IDs: the directory's, and that of this process
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("directory %s belongs to user %s, and this is user %s: run gridagent as that user, or give the directory to this one with chown -R",
		e.Path, userName(e.Owner), userName(e.Own))
}

// userName says who uid is, with the name if it has one.
func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (" + id + ")"
	}
	return id
}

// checkOwner returns an [*OwnerError] unless dir is uid's, or is not there.
func checkOwner(dir string, uid int) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil // whoever opens it says so
	}
	if int(st.Uid) != uid {
		return &OwnerError{Path: dir, Owner: int(st.Uid), Own: uid}
	}
	return nil
}

// WriteFile replaces the file at path with data so that a reader, or a crash at any
// moment, sees the old content or the new one and nothing between: it writes a file
// aside, syncs it, renames it and syncs the directory.
func WriteFile(path string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close() // a second close fails and harms nothing
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// makeDir prepares dir for a new cluster, and takes it for the caller alone until [unlock]: of two at once each would write some
// of the files. It refuses a dir that holds a cluster, or keys.
func makeDir(dir string) (lock *os.File, err error) {
	if dir == "" {
		return nil, errors.New("no directory given for the cluster's files")
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, modeDir)
	case err == nil && has(entries, FileSettings):
		return nil, existsError(dir)
	case err == nil:
		err = closeDir(dir, len(entries) == 0)
	}
	var mode *PermissionError
	if errors.As(err, &mode) {
		return nil, err
	}
	if err == nil {
		lock, err = Lock(dir)
	}
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("directory %s: %w: another gridagent is at work there; wait until it has ended, or give another directory", dir, err)
	}
	if err == nil {
		entries, err = os.ReadDir(dir) // what is there now stays so until unlock
	}
	switch {
	case err != nil:
		err = fmt.Errorf("directory for the cluster's files: %w", err)
	case has(entries, FileSettings):
		err = existsError(dir)
	default:
		for _, key := range []string{FileCAKey, FileHostKey} {
			if has(entries, key) { // never overwritten: it may be the only copy
				err = fmt.Errorf("directory %s holds %s but no %s, the remains of an interrupted command: remove it or give another directory",
					dir, key, FileSettings)
				break
			}
		}
	}
	if err != nil {
		if lock != nil {
			unlock(lock)
		}
		return nil, err
	}
	return lock, nil
}

func has(entries []fs.DirEntry, name string) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
}

func existsError(dir string) error {
	return fmt.Errorf("directory %s %w: to run its agent, use gridagent join --dir %s; to start anew, give another directory",
		dir, ErrExists, dir)
}

// closeDir sees to it that other users cannot list dir.
func closeDir(dir string, empty bool) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&^modeDir == 0 {
		return nil
	}
	if !empty { // it may be the home directory, or /tmp: its mode is not ours to change
		return &PermissionError{Path: dir, Mode: info.Mode().Perm(), Want: modeDir}
	}
	return os.Chmod(dir, modeDir)
}

// ErrLocked means that another process, or another part of this one, has the lock of a directory.
var ErrLocked = errors.New("it is locked")

// Lock takes dir for the caller alone. The lock ends when the file is closed, or with the process.
func Lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, FileLock)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, modeSecret)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrLocked
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		locked, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(locked, there) {
			return f, nil
		}
		f.Close() // removed by unlock before it was locked here: another file is the lock now
	}
}

// unlock ends a lock and leaves nothing of it, which only its holder may do.
func unlock(lock *os.File) {
	os.Remove(lock.Name())
	lock.Close()
}

// readFile reads a file of the directory. A secret that others can read is refused.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); secret && mode&^modeSecret != 0 {
		return nil, &PermissionError{Path: path, Mode: mode, Want: modeSecret}
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", path, info.Size(), maxFile)
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}
