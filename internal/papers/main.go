package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	only := flag.String("only", "", "experiments to run, with commas: ids (min3-fig8) or papers (min3); empty means all")
	out := flag.String("out", filepath.Join("docs", "results"), "folder for the results")
	quick := flag.Bool("quick", false, "only the smallest size and two contenders of everything: does all of it still work?")
	draw := flag.Bool("draw", false, "measure nothing: make pages and pictures again from the raw numbers in the folder")
	show := flag.Bool("list", false, "list the experiments")
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *out, *quick, *draw, *show); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintf(os.Stderr, "Repeats the papers' experiments and writes tables and pictures. It runs in the root of the module.\n\n"+
		"Usage: scripts/bench papers [--only ID,…] [--out DIR] [--quick] [--draw] [--list]\n\n")
	flag.PrintDefaults()
}

func run(ctx context.Context, only, out string, quick, draw, show bool) error {
	list, err := chosen(strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' }))
	if err != nil {
		return err
	}
	if show {
		for _, e := range list {
			fmt.Printf("%-14s %s (%s)\n", e.id, e.title, e.where)
		}
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "papers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	f := &folder{path: out}
	if f.peers, err = readPeers(filepath.Join(out, "peers.json")); err != nil {
		return err
	}
	p := newProgress(term.IsTerminal(int(os.Stderr.Fd())))
	r := &runner{quick: quick, progress: p.step, emulator: emulator{dir: tmp}}
	var failed []error
	for _, e := range list {
		began := time.Now()
		err := f.run(ctx, r, e, draw)
		p.clear()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // the others are worth having
			failed = append(failed, fmt.Errorf("%s: %w", e.id, err))
			fmt.Fprintf(os.Stderr, "%-14s %v\n", e.id, err)
		default:
			fmt.Fprintf(os.Stderr, "%-14s %s\n", e.id, duration(time.Since(began).Seconds()))
		}
	}
	return errors.Join(append(failed, f.index())...)
}

// run measures an experiment, unless only its pages are to be made again, and writes its files.
func (f *folder) run(ctx context.Context, r *runner, e *experiment, draw bool) error {
	if !draw {
		m := thisMachine()
		raw, err := r.measure(ctx, e)
		if err != nil {
			return err
		}
		raw.Machine, raw.Date, raw.Command = m, time.Now().UTC().Format("2006-01-02 15:04 UTC"), command(e.id, r.quick)
		if err := f.save(raw); err != nil {
			return err
		}
	}
	return f.show(e)
}

// command is how to run one experiment again. The folder is left out: it says where, not what.
func command(id string, quick bool) string {
	c := "scripts/bench papers --only " + id
	if quick {
		c += " --quick"
	}
	return c
}

// A progress writes to standard error what is at work: on a terminal one line that changes, else a line a
// minute.
type progress struct {
	terminal bool
	last     time.Time
}

func newProgress(terminal bool) *progress { return &progress{terminal: terminal, last: time.Now()} }

// step is called often, from one goroutine at a time.
func (p *progress) step(format string, args ...any) {
	switch since := time.Since(p.last); {
	case p.terminal && since > 100*time.Millisecond:
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
	case !p.terminal && since > time.Minute:
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	default:
		return
	}
	p.last = time.Now()
}

func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
