package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c, err := parse(os.Args[1:], func(text string) { fmt.Print(text) })
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	err = compare(ctx, c)
	if ctx.Err() != nil {
		err = interrupted(err)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// interrupted returns the error of a run that was told to end, which ended with err.
func interrupted(err error) error {
	if errors.Is(err, errLeft) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return errors.New("interrupted; the lab is taken down")
}

// compare makes a lab for each congestion control and runs everything in it.
func compare(ctx context.Context, c *config) (err error) {
	if c.Binary, err = exec.LookPath(c.Binary); err != nil {
		return err
	}
	if c.Binary, err = filepath.Abs(c.Binary); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "peers-") // short: sockets have names of at most 108 bytes
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := makeDirs(dir); err != nil {
		return err
	}
	if err := c.draw(dir); err != nil {
		return err
	}
	net, err := loadNetwork(c)
	if err != nil {
		return err
	}
	m := mark(filepath.Base(dir))
	tools, err := newPrograms(ctx, dir)
	if err != nil {
		return err
	}
	known, err := c.algorithms(ctx, tools, m)
	if err != nil {
		return err
	}
	broken := 0
	print := &printer{out: os.Stdout, json: c.JSON}
	for i, congestion := range c.Congestion {
		s := &session{print: print, tools: tools, known: known, progress: progress}
		progress("lab %s with %d hosts and %s", net.name, len(net.hosts), orSystem(congestion))
		if s.testbed, err = setUp(ctx, c, net, congestion, dir, m); err != nil {
			return err
		}
		if tools.launcher, err = s.launcher(); err == nil {
			// gridagent's congestion control is its own: one lab is enough.
			err = s.all(ctx, i == 0)
		}
		if err = errors.Join(err, s.down()); err != nil {
			return err
		}
		broken += s.broken
	}
	if broken > 0 {
		return fmt.Errorf("%d results are errors or wrong data", broken)
	}
	return nil
}

// all runs the tools one after the other.
func (s *session) all(ctx context.Context, agents bool) error {
	if slices.Contains(s.Tools, toolIperf) {
		if err := s.links(ctx); err != nil {
			return err
		}
	}
	for _, l := range libraries {
		if slices.Contains(s.Tools, l.tool) {
			if err := s.mpi(ctx, l); err != nil {
				return err
			}
		}
	}
	if agents && slices.Contains(s.Tools, toolGridagent) {
		return s.gridagent(ctx)
	}
	return nil
}

func orSystem(congestion string) string {
	if congestion == "" {
		return "the system's congestion control"
	}
	return congestion
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "==> "+format+"\n", args...) }
