package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errMissed means that a bound is missed; the table says which.
var errMissed = errors.New("a bound is missed")

func main() {
	only := flag.String("only", "", "regular expression; only cells whose name it matches (--list shows the names)")
	quick := flag.Bool("quick", false, "a few small cells of each row, within a minute")
	list := flag.Bool("list", false, "list the cells")
	details := flag.Bool("details", false, "print each row's own table, too")
	seeds := flag.Int("seeds", 1, "how many seeds")
	rtt := flag.Duration("rtt", defaultRTT, "round trip of the one-flow and capacity worlds")
	drawn := flag.String("random", "", "seed, or seeds as in 1-20: grids drawn from them instead of the table's cells")
	out := flag.String("out", "", "write probes.md and probes.json to this folder, which is made; a run that fails or is interrupted writes neither")
	draw := flag.Bool("draw", false, "measure nothing: show, and with --out write, what probes.json of --from holds")
	from := flag.String("from", filepath.Join("docs", "results"), "folder that --draw reads")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Measures how true the network map is, in virtual time. It runs in the root of the module.\n\n"+
			"Usage: scripts/bench probes [--quick] [--only REGEXP] [--seeds N] [--rtt 50ms] [--details] [--out DIR] [--list]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cells, err := chosen(*quick, *only, *drawn, *rtt, *seeds)
	switch {
	case err != nil:
	case *list:
		for _, c := range cells {
			fmt.Println(c)
		}
		return
	default:
		raw := &Raw{Command: command(), Quick: *quick}
		if *draw {
			err = load(filepath.Join(*from, "probes.json"), raw)
		} else {
			err = raw.measure(ctx, cells)
		}
		if err != nil {
			*out = "" // a part does not take the place of what an earlier run has found
		}
		if err == nil || len(raw.Readings) > 0 { // what was measured before it failed is worth seeing
			err = errors.Join(err, report(raw, *details, *out))
		}
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "probes:", err)
		os.Exit(1)
	}
}

// command is how to run the same again; where the results go does not matter for them.
func command() string {
	c := "scripts/bench probes"
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "out" && f.Name != "details" {
			c += fmt.Sprintf(" --%s=%v", f.Name, f.Value)
		}
	})
	return c
}

// chosen returns the cells to measure.
func chosen(quick bool, only, drawn string, rtt time.Duration, seeds int) ([]Cell, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	if seeds < 1 || rtt < 0 || rtt > time.Second {
		return nil, fmt.Errorf("%d seeds and a round trip of %v: want at least 1 seed, and 0 to 1s", seeds, rtt)
	}
	cells := quickCells()
	if !quick {
		cells = fullCells(rtt, seeds)
	}
	if drawn != "" {
		if cells, err = randomCells(drawn); err != nil {
			return nil, err
		}
	}
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return !match.MatchString(c.String()) })
	if len(cells) == 0 {
		return nil, fmt.Errorf("--only %q matches no cell; --list shows the names", only)
	}
	return cells, nil
}

// report prints raw and writes its page to a folder, unless that is empty.
func report(raw *Raw, details bool, out string) error {
	lines := judge(raw.Readings)
	if err := writeText(os.Stdout, lines, details); err != nil {
		return err
	}
	if out != "" {
		data, err := json.MarshalIndent(raw, "", " ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		for name, text := range map[string][]byte{"probes.json": append(data, '\n'), "probes.md": []byte(markdown(raw))} {
			if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	var missed []string
	for _, l := range lines {
		if !l.OK {
			missed = append(missed, string(l.Row))
		}
	}
	if missed != nil {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(missed, ", "))
	}
	return nil
}

func load(path string, into *Raw) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
