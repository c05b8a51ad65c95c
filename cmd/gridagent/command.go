package main

import (
	"context"

	"github.com/spf13/cobra"
)

// command wraps the code of a command, so that errors from before it count as usage errors
// and that Ctrl-C ends it at once where it computes.
func (a *app) command(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.parsed = true
		a.busy = a.statusLine(false)
		defer a.busy.stop()
		if !computes(cmd) {
			return run(cmd, args)
		}
		return untilDone(cmd.Context(), func() error { return run(cmd, args) })
	}
}

// computes says whether cmd is of the group that works on files alone. Its code does not
// look at a context: the planners are pure, and a read of a pipe that nobody fills does not end.
func computes(cmd *cobra.Command) bool {
	for c := cmd; c != nil; c = c.Parent() {
		if c.GroupID == groupPlan {
			return true
		}
	}
	return false
}

// untilDone runs f and returns its error, or that of ctx as soon as ctx is done. In that
// case f is left running: it holds nothing but memory, and the process is about to end.
func untilDone(ctx context.Context, f func() error) error {
	ended := make(chan error, 1) // f can end although nobody listens any more
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
