package main

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
)

func (a *app) broadcastCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "broadcast FILE",
		Short: "Give the file of one rank to all ranks",
		Long: `Join the group --job as rank --rank of --ranks, and give the file of rank --root to all. At the
root FILE is read; at every other rank it is written, aside, and renamed when it is whole.
The call waits until all ranks are there, but no longer than the first of them is willing to
wait (--forming-timeout): then all end with an error that lists the missing ranks.

It is planned as an allgather in which only the root's host has bytes: --algorithm takes the
names of that, and --plan a plan of one.

If a rank or its host is lost, or the ranks disagree, or not all of them come, every rank's
command ends with status 4 and the same message.`,
		Example: `  gridagent broadcast --job j1 --rank 0 --ranks 3 model.bin
  gridagent broadcast --job j1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --root 2 model.bin -o json`,
		Args: cobra.ExactArgs(1),
	}
	from := new(cobra.Command)
	f := addRankFlags(from, group.Broadcast, "")
	borrow(cmd, from, "dir", "socket", "job", "rank", "ranks", "force", "algorithm", "plan", "timeout", "forming-timeout", "no-progress", "explain", "output")
	f.cmd = cmd
	cmd.Flags().Lookup("force").Usage = "replace FILE if it exists, at a rank that is not the root"
	root := cmd.Flags().Int("root", 0, "rank whose file all get, the same at every rank")
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		file := args[0]
		if err := f.checkRank(); err != nil {
			return err
		}
		if err := checkNamed("FILE", file); err != nil {
			return err
		}
		if *root < 0 || *root >= f.ranks {
			return usagef("--root %d: want a rank from 0 to %d", *root, f.ranks-1)
		}
		in, out := "", file
		if *root == f.rank {
			in, out = file, ""
		}
		if err := checkFiles(in, out, f.force); err != nil {
			return err
		}
		opts, err := f.options()
		if err != nil {
			return err
		}
		return a.runRank(cmd.Context(), f, &opts, func(ctx context.Context, r *client.Rank) (*apiv1.Report, error) {
			return r.BroadcastFile(ctx, *root, file, opts)
		})
	})
	return cmd
}
