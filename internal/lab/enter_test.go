package lab

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
	"testing"
)

// The status is what a shell ends with: scripts tell "not found" from a program that fails.
func TestCommandErrorStatus(t *testing.T) {
	for err, want := range map[error]int{
		exec.ErrNotFound: 127,
		fs.ErrNotExist:   127,
		syscall.ENOENT:   127, // an interpreter that is not there
		syscall.EACCES:   126,
		syscall.ENOEXEC:  126,
	} {
		var c *CommandError
		if !errors.As(error(&CommandError{"x", err}), &c) || c.Status() != want {
			t.Errorf("%v: status %d, want %d", err, c.Status(), want)
		}
	}
}
