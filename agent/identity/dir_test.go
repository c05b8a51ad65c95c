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
