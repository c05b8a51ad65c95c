package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestCheckRoom: nothing is left of the test of a folder, and one that cannot be written to is refused.
func TestCheckRoom(t *testing.T) {
	dir := t.TempDir()
	if err := checkRoom(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := checkRoom(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
