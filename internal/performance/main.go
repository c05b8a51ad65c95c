package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/gridagent/gridagent/internal/bubble"
)

// mostGrids is how many grids --random takes at once: an hour of them.
const mostGrids = 1000

// errMissed means that a bound is missed; the table says which.
var errMissed = errors.New("a bound is missed")

func main() {
	only := flag.String("only", "", "regular expression; only cells whose name it matches (--list shows the names)")
	list := flag.Bool("list", false, "list the cells")
	seeds := flag.Int("seeds", 1, "how many seeds")
	drawn := flag.String("random", "", "two `seeds` with a hyphen between, as 301-360: in place of the page's cells, engines alone on the grids that scripts/peers --drawn makes of these and those between, or --limits page")
	from := flag.String("limits", "lab", "with --random: lab, or page for grids as the page's drawn ones are")
	settle := flag.Duration("settle", 0, "with --random: agents that have measured for so long, as 5m, in place of engines")
	out := flag.String("out", "", "file for the page, as docs/performance.md; its numbers go to docs/results/performance.json beside, where those of cells that --only leaves out stay")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Measures how near to the bound exchanges come, in virtual time. It runs in the root of the module.\n\n"+
			"Usage: scripts/bench exchange [--only REGEXP] [--seeds N] [--out FILE] [--list]\n"+
			"       scripts/bench exchange --random SEED-SEED [--limits lab|page] [--settle DURATION] [--only REGEXP] [--seeds N] [--list]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *drawn, *from, *settle, *list, *seeds, *out); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, drawn, from string, settle time.Duration, list bool, seeds int, out string) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if flag.NArg() > 0 || seeds < 1 {
		return fmt.Errorf("arguments %q, %d seeds: want no arguments and at least 1 seed; --help shows the flags", flag.Args(), seeds)
	}
	if settle < 0 || settle > 0 && drawn == "" {
		return fmt.Errorf("--settle %v: want a time above 0, and the grids of --random", settle)
	}
	name := limits[from]
	if name == nil || from != "lab" && drawn == "" {
		return fmt.Errorf("--limits %q: want lab or page, and the grids of --random", from)
	}
	all := allCells(seeds)
	if drawn != "" {
		var first, last uint64
		if n, err := fmt.Sscanf(drawn, "%d-%d", &first, &last); n != 2 || err != nil || last < first || last-first >= mostGrids {
			return fmt.Errorf("--random %q: want two seeds, as 301-360, of %d grids at most", drawn, mostGrids)
		}
		if out != "" {
			return errors.New("--out: the page has no grids of --random")
		}
		all = seedCells(name, first, last, settle, seeds)
	}
	cells := slices.DeleteFunc(all, func(c Cell) bool { return !match.MatchString(c.String()) })
	if len(cells) == 0 {
		return fmt.Errorf("--only %q matches no cell; --list shows the names", only)
	}
	if list {
		for _, c := range cells {
			fmt.Println(c)
		}
		return nil
	}
	if out != "" { // now, so that a file that cannot be read is no surprise after an hour
		if _, err := readRaw(out); err != nil {
			return err
		}
	}
	raw := &Raw{Command: command(), Date: time.Now().UTC().Format("2006-01-02 15:04:05.000 UTC")}
	begin := time.Now()
	err = bubble.Run(ctx, "internal/performance", "TestMeasure", cells, func(r Reading) {
		raw.Readings = append(raw.Readings, r)
		fmt.Fprintf(os.Stderr, "%3d of %d  %5.1f s  %v\n", len(raw.Readings), len(cells), r.Seconds, r.Cell)
	})
	raw.Seconds, raw.Missing = time.Since(begin).Seconds(), len(cells)-len(raw.Readings)
	if out != "" && (only != "" || raw.Missing > 0) { // as it is now: several may run at a time
		old, readErr := readRaw(out)
		if old != nil {
			raw.join(old)
		}
		err = errors.Join(err, readErr)
	}
	if len(raw.Readings) > 0 { // what was measured until then is worth having
		err = errors.Join(err, report(raw, out))
	}
	return err
}

// command is how to run the same again; where the results go does not matter for them.
func command() string {
	c := "scripts/bench exchange"
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "out" {
			c += fmt.Sprintf(" --%s=%v", f.Name, f.Value)
		}
	})
	return c
}
