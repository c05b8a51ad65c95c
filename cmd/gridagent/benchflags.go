package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// benchFlags are those of a rank that has no files, and what is a benchmark's own.
type benchFlags struct {
	*rankFlags
	sizes              *sizeList
	shape              *choice
	iterations, warmup int
	together           bool
}

func addBenchFlags(cmd *cobra.Command, c plan.Collective, size string) *benchFlags {
	// The flags of the command that it times, with their words and defaults.
	from := new(cobra.Command)
	f := &benchFlags{rankFlags: addRankFlags(from, c, ""), sizes: &sizeList{bytes: []int64{64 << 10}}}
	borrow(cmd, from, "dir", "socket", "job", "rank", "ranks", "algorithm", "plan", "timeout", "forming-timeout", "no-progress", "output")
	f.cmd = cmd
	flags := cmd.Flags()
	flags.Lookup("timeout").Usage = "give up if the group has not formed within this time, or if a single operation takes longer; 0 means never"
	flags.Lookup("plan").Usage = "plan to run in place of an algorithm's (gridagent plan -o json), for the one size of --sizes; not every rank must give it"
	flags.Lookup("no-progress").Usage = "no progress line (there is none anyway unless standard error is a terminal)"
	flags.Var(f.sizes, "sizes", size+": sizes with their units, and ranges like 1KiB..4MiB, which double; 0B is one")
	names, texts := bench.ShapesOf(c)
	f.shape = choiceFlag(cmd, "shape", "", "what blocks have where --sizes is the largest: "+strings.Join(texts, "; "), names...)
	flags.IntVar(&f.iterations, "iterations", 3, "operations of each size that count")
	flags.IntVar(&f.warmup, "warmup", 1, "operations of each size before those that count")
	flags.BoolVar(&f.together, "together", true, "all ranks begin an operation at the same moment; =false: each when it leaves the barrier before it, to compare with benchmarks of MPI, which do that; the same at every rank")
	return f
}

// borrow gives cmd flags of another command, whose variables they set.
func borrow(cmd, from *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flags().AddFlag(from.Flags().Lookup(name))
	}
}

// check refuses what needs no agent to be seen, before the group forms.
func (f *benchFlags) check() error {
	if err := f.checkRank(); err != nil {
		return err
	}
	switch {
	case f.iterations < 1:
		return usagef("--iterations %d: want 1 or more", f.iterations)
	case f.warmup < 0:
		return usagef("--warmup %d: want 0 or more", f.warmup)
	case f.plan != "" && len(f.sizes.bytes) > 1:
		return usagef("--plan %s with %d sizes: a plan is for blocks of one size", f.plan, len(f.sizes.bytes))
	}
	for _, n := range f.sizes.bytes {
		if n > bench.MaxResult/int64(f.ranks) {
			return usagef("--sizes %s: with %d ranks each rank would get more than %s", gridfile.FormatSize(n), f.ranks, formatBytes(int64(bench.MaxResult)))
		}
	}
	return nil
}

// A sizeList is a flag that takes sizes and ranges of them, with commas between.
type sizeList struct {
	bytes []int64
	given bool
}

var _ pflag.Value = (*sizeList)(nil)

func (l *sizeList) Type() string { return "sizes" }

func (l *sizeList) String() string {
	text := make([]string, len(l.bytes))
	for i, n := range l.bytes {
		text[i] = gridfile.FormatSize(n)
	}
	return strings.Join(text, ",")
}

// Set replaces the default; further calls append, as with pflag's own lists.
func (l *sizeList) Set(s string) error {
	var sizes []int64
	for item := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(item), "..")
		first, err := gridfile.ParseSize(low)
		if err != nil {
			return err
		}
		if !isRange {
			sizes = append(sizes, first)
			continue
		}
		last, err := gridfile.ParseSize(high)
		if err != nil {
			return err
		}
		if first < 1 || last < first {
			return fmt.Errorf("range %s: want it to begin above 0 and not to fall", item)
		}
		for n := first; ; n *= 2 {
			sizes = append(sizes, n)
			if n > last/2 {
				break
			}
		}
	}
	if !l.given {
		l.bytes, l.given = nil, true
	}
	l.bytes = append(l.bytes, sizes...)
	return nil
}
