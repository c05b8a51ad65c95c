package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func (a *app) alltoallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alltoall",
		Short: "Send every rank its block of a file and receive one from each",
		Long: `Join the group --job as rank --rank of --ranks. The file --in holds a block for every rank,
one after the other in rank order; --out gets the blocks from all ranks, in rank order.

Without --sizes or --size-file the file is cut into equal blocks, one for each rank, and is as
long at every rank. --sizes lists this rank's blocks; --size-file is a file with a line for
every rank (that of plan alltoall), of which each rank takes its own.
The call waits until all ranks are there, but no longer than the first of them is willing to
wait (--forming-timeout): then all end with an error that lists the missing ranks. --out is
written aside and renamed when it is whole.

--algorithm auto takes what the agent expects to be fastest: by a forecast over its map of the
network, corrected by what operations took before; shift until the map is complete. --plan runs a
plan made elsewhere, after proving it: its hosts must be those of the group, in any order, and
its sizes what the ranks on each host have together for those on each other.

If a rank or its host is lost, or the ranks disagree, or not all of them come, every rank's
command ends with status 4 and the same message.`,
		Example: `  gridagent alltoall --job j1 --rank 0 --ranks 3 --in blocks0 --out from-all
  gridagent alltoall --job j1 --rank 0 --ranks 3 --in blocks0 --out from-all --sizes 1MiB,0,700B
  gridagent alltoall --job j1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --in blocks --out from-all --size-file matrix.txt -o json
  gridagent alltoall --job j1 --rank 0 --ranks 3 --in blocks0 --out from-all --algorithm aapc --sync sender
  gridagent alltoall --job j1 --rank 0 --ranks 3 --in blocks0 --out from-all --plan plan.json`,
		Args: cobra.NoArgs,
	}
	f := &alltoallFlags{rankFlags: addRankFlags(cmd, plan.Alltoall, "file with a block for every rank, in rank order")}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.sizes, "sizes", nil, "sizes of the blocks in --in, with their units, in rank order (default: all equal)")
	flags.StringVar(&f.sizeFile, "size-file", "", "file of all ranks' sizes: a line for every rank with what it sends to each")
	f.sync = choiceFlag(cmd, "sync", "", "how aapc keeps messages of different phases apart", syncValues...)
	flags.IntVar(&f.syncBlock, "sync-block", 0, "partial synchronisation of aapc: phases per block (0: every phase is kept from the next)")
	f.within = choiceFlag(cmd, "within", "", "with --sync barrier --sync-block: synchronisation inside a block; order also with sender", "none", "order", "sender", "receiver")
	flags.BoolVar(&f.strict, "sync-strict", false, "with --sync-block: order all contending messages of different blocks, which the papers' way does not")
	flags.IntVar(&f.fanout, "fanout", 0, "partners that a host of group-shuffle serves at a time (0: 5, or all others where they are fewer)")
	cmd.MarkFlagsMutuallyExclusive("sizes", "size-file")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		opts, err := f.options()
		if err != nil {
			return err
		}
		return a.runRank(cmd.Context(), f.rankFlags, &opts.Options, func(ctx context.Context, r *client.Rank) (*apiv1.Report, error) {
			return r.AlltoallFile(ctx, f.in, f.out, opts)
		})
	})
	return cmd
}

// alltoallFlags are those of rankFlags, and what is an alltoall's own.
type alltoallFlags struct {
	*rankFlags
	sizes    []string
	sizeFile string

	sync, within      *choice
	syncBlock, fanout int
	strict            bool
}

func (f *alltoallFlags) options() (client.AlltoallOptions, error) {
	opts, err := f.scheduling()
	if err != nil {
		return opts, err
	}
	if opts.Options, err = f.rankFlags.options(); err != nil {
		return opts, err
	}
	if opts.Sizes, err = f.blocks(); err != nil {
		return opts, err
	}
	return opts, f.fit(opts.Sizes)
}

// scheduling returns what the flags say that only some algorithms look at.
func (f *alltoallFlags) scheduling() (client.AlltoallOptions, error) {
	opts := client.AlltoallOptions{SyncBlock: f.syncBlock, SyncStrict: f.strict, Fanout: f.fanout}
	if f.syncBlock < 0 || f.fanout < 0 {
		return opts, usagef("--sync-block %d --fanout %d: want 0 or more", f.syncBlock, f.fanout)
	}
	if err := f.checkOptions(); err != nil {
		return opts, err
	}
	// What was not given stays empty: ranks that spell the default do not disagree with the others.
	if f.sync.value != f.sync.of[0] {
		opts.Sync = f.sync.value
	}
	if f.within.value != f.within.of[0] {
		opts.Within = f.within.value
	}
	return opts, nil
}

// checkOptions refuses flags that the algorithm, or a plan, does not look at: whoever gives
// one expects a difference.
func (f *alltoallFlags) checkOptions() error {
	for _, name := range []string{"sync", "sync-block", "within", "sync-strict", "fanout"} {
		switch {
		case !f.cmd.Flags().Changed(name):
		case f.plan != "":
			return usagef("--%s and --plan: the plan is run as it is", name)
		case f.algorithm != planner.Auto:
			alg, err := planner.Asked(f.collective, f.algorithm)
			if err != nil {
				return &usageError{err}
			}
			if !slices.Contains(alg.Options, name) {
				return usagef("--%s is not for %s%s", name, alg.Name, takers(f.collective, name))
			}
		}
	}
	return nil
}

// blocks returns the sizes of this rank's blocks, nil where all are equal.
func (f *alltoallFlags) blocks() ([]int64, error) {
	if f.sizeFile != "" {
		data, err := readFile(f.sizeFile, maxPlanBytes)
		if err != nil {
			return nil, fmt.Errorf("sizes: %w", err)
		}
		rows, err := parseMatrix(f.sizeFile, data, f.ranks)
		if err != nil {
			return nil, err
		}
		return rows[f.rank], nil
	}
	if !f.cmd.Flags().Changed("sizes") {
		return nil, nil
	}
	if len(f.sizes) != f.ranks {
		return nil, usagef("--sizes %s: %d sizes for %d ranks", strings.Join(f.sizes, ","), len(f.sizes), f.ranks)
	}
	sizes := make([]int64, len(f.sizes))
	for i, text := range f.sizes {
		if text = strings.TrimSpace(text); text == "0" {
			continue
		}
		n, err := gridfile.ParseSize(text)
		if err != nil {
			return nil, usagef("--sizes: rank %d: %w", i, err)
		}
		sizes[i] = n
	}
	return sizes, nil
}

// fit compares sizes, nil for equal ones, with the file that they are to cut up: before the
// group forms, as rankFlags.check does.
func (f *alltoallFlags) fit(sizes []int64) error {
	info, err := os.Stat(f.in)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if sizes == nil {
		if info.Size()%int64(f.ranks) != 0 {
			return fmt.Errorf("input %s has %d bytes, which are not %d blocks of one size: give --sizes or --size-file", f.in, info.Size(), f.ranks)
		}
		return nil
	}
	var total int64
	for _, n := range sizes {
		if total += n; n > info.Size() || total > info.Size() {
			break
		}
	}
	if total != info.Size() {
		return fmt.Errorf("input %s has %d bytes, which is not what the sizes of its %d blocks make", f.in, info.Size(), f.ranks)
	}
	return nil
}
