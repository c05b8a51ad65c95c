package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gridagent/gridagent/agent/client"
)

// The exit statuses of every command. They are a public interface: docs/cli/README.md.
const (
	exitOK          = 0
	exitFailure     = 1   // the command could not do it, or verify found a violation
	exitUsage       = 2   // unknown command, flag or setting, or a value that cannot be read
	exitUnreachable = 3   // no agent answers on the socket, it ended in the middle of a call, or does not answer
	exitGroup       = 4   // a group's operation failed: a rank or host was lost, ranks disagree, time ran out
	exitExec        = 125 // lab exec could not enter the host; as env, chroot and timeout, and like them 126 and 127
	exitInterrupted = 130 // ended by Ctrl-C or SIGTERM, as a shell reports SIGINT
)

// A usageError is the caller's mistake, found after the flags were parsed.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// A statusError has an exit status of its own.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// report prints err as one line and returns the exit status that it stands for.
// parsed says that the command line had been understood when err came up.
func (a *app) report(err error, parsed bool) int {
	if err == nil {
		return exitOK
	}
	status := exitFailure
	var usage *usageError
	var unreachable *unreachableError
	var gone *goneError
	var silent *silentError
	var group *client.GroupError
	var forming *formingError
	var own *statusError
	switch {
	case errors.As(err, &own):
		status = own.status
	case errors.As(err, &usage) || !parsed:
		status = exitUsage
	case errors.As(err, &unreachable) || errors.As(err, &gone) || errors.As(err, &silent):
		status = exitUnreachable
	case errors.As(err, &group), errors.As(err, &forming):
		status = exitGroup
	case errors.Is(err, context.Canceled):
		// Only our own signal context is cancelled before a deadline.
		status, err = exitInterrupted, errors.New("interrupted")
	}
	// Scripts read one line: a multi-line error of a library is folded.
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	fmt.Fprintf(a.err, "gridagent: %s\n", strings.Join(lines, " "))
	return status
}
