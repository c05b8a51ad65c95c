package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Remembered members that the agent's user may not read end the start; a file that is no good does not.
func TestPeersThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // it is the file's mode that counts
		t.Fatal(err)
	}
	path := filepath.Join(dir, "peers.json")
	if err := os.WriteFile(path, []byte("{"), 0o000); err != nil {
		t.Fatal(err)
	}
	var warned strings.Builder
	log := slog.New(slog.NewTextHandler(&warned, nil))
	read := func() (err error) {
		done := make(chan struct{})
		go func() { // it ends with its thread, which has lost root's right to read everything
			defer close(done)
			runtime.LockOSThread()
			if os.Geteuid() == 0 {
				if _, err = unix.SetfsuidRetUid(65534); err != nil {
					return
				}
			}
			_, err = readPeers(path, log)
		}()
		<-done
		return err
	}
	if err := read(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "chown") {
		t.Errorf("a file of another user: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil || !strings.Contains(warned.String(), "starting without them") {
		t.Errorf("a file that is no good: %v, log %q", err, warned.String())
	}
}
