package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// makeDir prepares dir for a new cluster. It refuses one that holds a cluster, or keys.
func makeDir(dir string) error {
	if dir == "" {
		return errors.New("no directory given for the cluster's files")
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, modeDir); err != nil {
			return fmt.Errorf("directory for the cluster's files: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("directory for the cluster's files: %w", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	if has(FileSettings) {
		return fmt.Errorf("directory %s %w: to run its agent, use gridagent join --dir %s; to start anew, give another directory",
			dir, ErrExists, dir)
	}
	for _, key := range []string{FileCAKey, FileHostKey} {
		if has(key) { // never overwritten: it may be the only copy
			return fmt.Errorf("directory %s holds %s but no %s, the remains of an interrupted command: remove it or give another directory",
				dir, key, FileSettings)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("directory for the cluster's files: %w", err)
	}
	if info.Mode().Perm()&^modeDir == 0 {
		return nil
	}
	if len(entries) > 0 { // it may be the home directory, or /tmp: its mode is not ours to change
		return &PermissionError{Path: dir, Mode: info.Mode().Perm(), Want: modeDir}
	}
	if err := os.Chmod(dir, modeDir); err != nil {
		return fmt.Errorf("directory for the cluster's files: %w", err)
	}
	return nil
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
