package identity

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A meddler calls f once, when random bytes are asked of it: in the middle of what makes a cluster.
type meddler struct {
	once sync.Once
	f    func()
}

func (m *meddler) Read(b []byte) (int, error) {
	m.once.Do(m.f)
	return io.ReadFull(rand.Reader, b)
}

func wantLocked(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another gridagent is at work there") {
		t.Errorf("%s: %v, want an error that says that another is at work there", what, err)
	}
}

// Of two that make a cluster in one folder at once one is refused: each would have written some of the files.
func TestTwoInOneFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	var second error
	first, err := Init(dir, Options{Host: "ut0"}, time.Now(), &meddler{f: func() {
		_, second = Init(dir, Options{Host: "uk0"}, time.Now(), rand.Reader)
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantLocked(t, "the second init", second)
	got, err := Load(dir)
	if err != nil || got.Settings != first.Settings || !bytes.Equal(got.GossipKeys[0], first.GossipKeys[0]) {
		t.Errorf("loaded %+v, %v; the first made %+v", got, err, first.Settings)
	}
	if _, err := os.Stat(filepath.Join(dir, FileLock)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock afterwards: %v", err)
	}
}

// So it is where a host asks to be let in.
func TestTwoJoinsInOneFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCase(t, makeCluster(t, "ut0"), 0, 1)
		var second error
		c.sv.Members = func() []string { // asked while the first waits for its answer
			_, second = Init(c.dir, Options{Host: "uk1"}, time.Now(), rand.Reader)
			return nil
		}
		if _, _, err := c.try(t); err != nil {
			t.Fatal(err)
		}
		wantLocked(t, "an init beside a join", second)
		if got, err := Load(c.dir); err != nil || got.Settings.Host != "uk0" {
			t.Errorf("loaded %+v, %v", got, err)
		}

		c = newCase(t, makeCluster(t, "ut0"), 0, 1)
		if err := os.Mkdir(c.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := Lock(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.try(t)
		wantLocked(t, "a join in a folder that is locked", err)
		lock.Close()
		if _, _, err := c.try(t); err != nil {
			t.Errorf("a join afterwards: %v", err)
		}
	})
}

// An agent is not run, and no certificate fetched, in a folder of another user, whose own agent could not read what is written there.
func TestFolderOfAnotherUser(t *testing.T) {
	wantOwner := func(what, dir string, err error) {
		t.Helper()
		var owner *OwnerError
		if !errors.As(err, &owner) || owner.Path != dir || !strings.Contains(err.Error(), "as that user") {
			t.Errorf("%s: %v, want an OwnerError that names %s", what, err, dir)
		}
	}
	id := makeCluster(t, "ut0")
	_, err := load(id.Dir, os.Geteuid()+1)
	wantOwner("to load it", id.Dir, err)
	empty := t.TempDir()
	if _, err := load(empty, os.Geteuid()+1); !errors.Is(err, ErrNoCluster) {
		t.Errorf("a folder without a cluster: %v, want ErrNoCluster", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("to give a folder away takes root")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCase(t, makeCluster(t, "ut0"), 0, 1)
		if err := os.Mkdir(c.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(c.dir, 65534, -1); err != nil {
			t.Fatal(err)
		}
		_, _, err := c.try(t)
		wantOwner("to join with it", c.dir, err)
		if entries, err := os.ReadDir(c.dir); err != nil || len(entries) > 0 {
			t.Errorf("it holds %v, %v", entries, err)
		}
	})
	if err := os.Chown(id.Dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	_, err = Load(id.Dir)
	wantOwner("to load it as root", id.Dir, err)
}
